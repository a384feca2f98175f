"""How much each column matters to a model, and what it added to a prediction."""
