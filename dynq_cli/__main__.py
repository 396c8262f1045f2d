"""`python -m dynq_cli` is the `dynq` command."""

import sys

from dynq_cli.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
