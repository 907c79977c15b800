"""``python -m softqd.cli``."""

from softqd_command import main

if __name__ == "__main__":
    main()
