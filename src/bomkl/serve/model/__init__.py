"""The model of the service, the columns it takes, and the figures about it."""
