"""Imports what others made: training logs, tables of figures, run directories from elsewhere."""
