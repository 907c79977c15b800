"""Looking at results: figures and tables."""
