"""The usual learner, which learns row by row."""
