"""MiniGo: the rules of Go, the tree search, self-play and the training."""
