"""``python -m zyx``: the command line, also where the script ``zyx`` is not on the path."""

import sys

from zyx.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
