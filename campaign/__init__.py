"""What happens to softqd when things go wrong, counted: ``make campaign``.

Inputs at random, processes that are killed, disks that are full. Everything follows
from one seed, but for the moments at which processes are killed.
"""
