"""Seeds from the command line: ``--seed N`` replays one, ``--seeds N`` runs the first N."""

from __future__ import annotations

from typing import Final

import pytest

SEEDS_BY_DEFAULT: Final = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Both options belong to the simulation alone."""
    group = parser.getgroup("simulation")
    group.addoption("--seed", type=int, default=None, help="replay this seed of the simulation")
    group.addoption(
        "--seeds", type=int, default=SEEDS_BY_DEFAULT, help="how many seeds the simulation runs"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test with a ``seed`` runs once per seed.

    The options exist only where this folder is named on the command line.
    """
    if "seed" in metafunc.fixturenames:
        seed = metafunc.config.getoption("seed", None)
        count = metafunc.config.getoption("seeds", SEEDS_BY_DEFAULT)
        metafunc.parametrize("seed", range(count) if seed is None else [seed])
