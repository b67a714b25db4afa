"""Measures exchanges between ranks or nodes."""
