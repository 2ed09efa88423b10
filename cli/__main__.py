"""``python -m zkcontroller_cli`` is ``zkctl``, for where no script is installed."""

import sys

from zkcontroller_cli.main import main

sys.exit(main())
