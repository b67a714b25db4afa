"""MLPerf's inference benchmarks, driven by its LoadGen."""
