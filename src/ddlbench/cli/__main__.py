"""`python -m ddlbench.cli`: the command without an installed script."""

import sys

from ddlbench.cli.main import main

sys.exit(main())
