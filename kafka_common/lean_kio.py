"""Imports the base of kio's types without Hypothesis.

Where Hypothesis is installed, kio imports it and registers a strategy for each of its types.  No
broker needs them: they take a quarter of a second and 8 MB, and leave a folder ``.hypothesis``
where the user is.  A process that has imported Hypothesis itself gets the strategies.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Final, cast

_HYPOTHESIS: Final = "hypothesis"


def import_kio_types() -> None:
    """Imports the one module of kio that looks for Hypothesis, and lets it find none."""
    if _HYPOTHESIS in sys.modules:
        return
    # None in the table of modules is how Python says that a module cannot be imported.
    sys.modules[_HYPOTHESIS] = cast("ModuleType", None)
    try:
        import_module("kio.static._phantom")
    finally:
        del sys.modules[_HYPOTHESIS]
