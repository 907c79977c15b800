"""The Soft QD paper: what is run for its tables and figures, records, and claims.

Nothing else in the package knows the paper; ``softqd reproduce`` calls what is here.
"""
