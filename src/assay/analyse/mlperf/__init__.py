"""MLPerf's rules and scores, and time to train taken apart."""
