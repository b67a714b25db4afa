"""How much of the time was useful, how often jobs fail, and how often to save a checkpoint."""
