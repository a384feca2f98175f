"""What all four estimators share: labels, learning from one row, and rows of tables."""
