"""Tables with texts: hashed models of their cells around a learner of their numbers."""
