"""MLPerf Inference benchmarks, driven by LoadGen."""
