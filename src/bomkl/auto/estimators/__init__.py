"""The two estimators, and what people ask of them."""
