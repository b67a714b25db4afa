"""MLPerf's rules and scores, and the split of time to train."""
