"""The load of an LLM server."""
