"""Which of the package's examples are run elsewhere."""

# Needs pyribs: tests/parity/test_interop.py runs it.
collect_ignore = ["softqd/interop/ribs.py"]
