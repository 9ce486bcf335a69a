"""``python -m mxgemm``."""

import sys

from mxgemm.cli import main

sys.exit(main())
