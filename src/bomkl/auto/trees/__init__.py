"""Components of trees, and how they are grown."""
