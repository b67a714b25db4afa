"""What the facts about a machine mean for benchmarks run on it: state, evidence, and remedy. Pure."""
