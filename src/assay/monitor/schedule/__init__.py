"""Short suites at fixed times: when, and as a systemd timer or a line of scrontab."""
