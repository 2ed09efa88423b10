"""Seeds from the command line: ``--seed N`` replays one, ``--seeds N`` runs the first N.

``--first-seed M`` has them begin elsewhere, so that a long run can be split, and gone on with.
"""

from __future__ import annotations

from typing import Final

import pytest

SEEDS_BY_DEFAULT: Final = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    """These options belong to the simulation alone."""
    group = parser.getgroup("simulation")
    group.addoption("--seed", type=int, default=None, help="replay this seed of the simulation")
    group.addoption(
        "--seeds", type=int, default=SEEDS_BY_DEFAULT, help="how many seeds the simulation runs"
    )
    group.addoption("--first-seed", type=int, default=0, help="with which of them it begins")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test with a ``seed`` runs once per seed.

    The options exist only where this folder is named on the command line.
    """
    if "seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("seed", None)
        count = metafunc.config.getoption("seeds", SEEDS_BY_DEFAULT)
        first = metafunc.config.getoption("first_seed", 0)
        metafunc.parametrize("seed", range(first, first + count) if seed is None else [seed])
