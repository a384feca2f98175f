"""A data folder: its snapshots, how a service starts from it, replay and repair."""
