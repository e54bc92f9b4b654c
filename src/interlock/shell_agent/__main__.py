"""`python -m interlock.shell_agent`."""

import sys

from interlock.shell_agent import main

sys.exit(main())
