"""The report page, and figures by name from folders."""
