"""``python -m zkcontroller_cli`` runs ``zkctl`` if its script is not installed."""

import sys

from zkcontroller_cli.main import main

sys.exit(main())
