"""MLPerf's training benchmarks and the loop that they share."""
