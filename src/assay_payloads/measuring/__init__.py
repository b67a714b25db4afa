"""What measuring programs share: a rank's place and log, the site's programs, percentiles."""
