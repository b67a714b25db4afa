"""MiniGo: the rules of Go, tree search, self-play, and training."""
