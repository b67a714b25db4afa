"""The programs that run on the nodes; they import nothing of ours, so that they travel alone."""
