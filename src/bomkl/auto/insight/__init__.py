"""What a model of rows tells of its columns: how much each matters, and what each added to a prediction."""
