"""``python -m softqd.cli``."""

from softqd.cli import main

if __name__ == "__main__":
    main()
