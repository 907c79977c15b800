"""Which of the package's examples are run elsewhere."""

# Need pyribs and jaxley: tests/parity has their tests.
collect_ignore = ["softqd/interop/ribs.py", "softqd/problems/_neuron_cell.py"]
