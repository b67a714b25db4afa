"""The run directory: layout, states, atomic moves, attempts, tokens. Only this package writes to it."""
