"""The paper's tables and figures: what is run for them, and lasting records of it."""
