"""Bisection of the difference between two stacks: what to measure next, and which change is responsible."""
