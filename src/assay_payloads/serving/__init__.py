"""Load on an LLM server."""
