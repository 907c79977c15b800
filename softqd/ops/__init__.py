"""Pure array functions shared by algorithms, objectives and metrics."""
