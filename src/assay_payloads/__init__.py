"""The programs that run on the nodes: each is sent with the parts that it needs."""
