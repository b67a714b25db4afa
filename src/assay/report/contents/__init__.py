"""The contents of a report, gathered from results."""
