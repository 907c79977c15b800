"""Other libraries' algorithms on softqd's problems."""
