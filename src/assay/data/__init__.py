"""Labelled data: which frames there are, what is on them, which of them a training takes."""
