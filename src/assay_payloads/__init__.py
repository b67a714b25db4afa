"""The programs that run on the nodes: the part that one needs travels with it."""
