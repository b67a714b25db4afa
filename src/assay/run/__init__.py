"""Drives all the steps: plan, launch, collect, read, store; resumes after every interruption."""
