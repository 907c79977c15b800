"""Running: configuration, the one loop, checkpoints and results."""
