"""Many runs: comparisons and sweeps, over seeds, settings and processes."""
