"""What machines do while jobs run on them: samples, where they come from, and what they mean."""
