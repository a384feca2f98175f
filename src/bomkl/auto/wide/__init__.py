"""The learner of very wide rows."""
