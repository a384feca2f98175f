"""The learner of every row."""
