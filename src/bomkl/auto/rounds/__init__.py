"""The learner of rounds of sums."""
