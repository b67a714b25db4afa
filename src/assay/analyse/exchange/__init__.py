"""Exchanges between ranks over their size, and what they take of a step."""
