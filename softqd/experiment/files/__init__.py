"""Population files, ours and those of other tools: found, checked, and read."""
