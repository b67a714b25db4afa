"""What a report says, gathered from results."""
