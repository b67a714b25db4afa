"""What programs that measure share: a rank's place and log, programs of the site's, percentiles."""
