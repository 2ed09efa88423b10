"""Imports the base of kio's types without Hypothesis.

If Hypothesis is installed, kio imports it and registers a strategy for each of its types.  No
broker needs them: they take a quarter of a second and 8 MB, and create a folder ``.hypothesis`` in
the current directory.  A process that has imported Hypothesis before still gets the strategies.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Final, cast

_HYPOTHESIS: Final = "hypothesis"


def import_kio_types() -> None:
    """Imports the kio module that looks for Hypothesis, while Hypothesis cannot be imported."""
    if _HYPOTHESIS in sys.modules:
        return
    # Importing a module raises ImportError while its entry in sys.modules is None.
    sys.modules[_HYPOTHESIS] = cast("ModuleType", None)
    try:
        import_module("kio.static._phantom")
    finally:
        del sys.modules[_HYPOTHESIS]
