"""The run directory: layout, states, atomic moves, attempts, tokens; its only writer."""
