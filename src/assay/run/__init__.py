"""Drives the whole way: plan, launch, collect, read, store; goes on after every interruption."""
