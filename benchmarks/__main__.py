"""The command line."""

import sys

from benchmarks.run import main

sys.exit(main())
