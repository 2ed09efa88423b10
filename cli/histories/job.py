"""``zkctl history`` for ``spark-submit``: the same verbs, on whatever master it is given.

``spark-submit --master MASTER …/zkcontroller_cli/histories/job.py report LOG… --out DIR`` is
``zkctl history report LOG… --out DIR``.  LOG and DIR must be the same files for the driver and
for all workers, and the workers' Python must have this package.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

if __name__ == "__main__":
    # A script belongs to no package, so it calls the installed command, as a shell would.
    (zkctl,) = entry_points(group="console_scripts", name="zkctl")
    sys.exit(zkctl.load()(["history", *sys.argv[1:]]))
