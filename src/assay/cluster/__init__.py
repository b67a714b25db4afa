"""What a machine or cluster has and lacks."""
