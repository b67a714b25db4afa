"""What results say in words, for whatever they are then written as."""
