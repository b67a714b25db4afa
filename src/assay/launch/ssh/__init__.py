"""Jobs on a list of hosts, by OpenSSH."""
