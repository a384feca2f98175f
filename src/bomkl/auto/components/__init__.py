"""What a learner combines, and the combination."""
