"""Curves over sizes, the laws fitted to them, what limits them."""
