"""Exchanges between ranks by message size, and their share of a step."""
