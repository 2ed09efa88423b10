"""Seeds from the command line: ``--seed N`` replays one, ``--seeds N`` runs the first N.

``--first-seed M`` has them begin elsewhere, so that a long run can be split, and gone on with.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pytest

SEEDS_BY_DEFAULT: Final = 2
"""In ``make test``; ``.ci/run`` has ``make simulate`` run twelve, and ``make all`` 200."""
COSTLY_EACH: Final = 10
"""A test with a ``costly_seed`` runs one seed out of this many: its runs take much longer."""
LEAST_COSTLY: Final = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """These options belong to the simulation alone."""
    group = parser.getgroup("simulation")
    group.addoption("--seed", type=int, default=None, help="replay this seed of the simulation")
    group.addoption(
        "--seeds", type=int, default=SEEDS_BY_DEFAULT, help="how many seeds the simulation runs"
    )
    group.addoption("--first-seed", type=int, default=0, help="with which of them it begins")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test with a ``seed`` runs once per seed; with a ``costly_seed``, for a tenth of them.

    The options exist only where this folder is named on the command line.
    """
    seed = metafunc.config.getoption("seed", None)
    count = metafunc.config.getoption("seeds", SEEDS_BY_DEFAULT)
    first = metafunc.config.getoption("first_seed", 0)
    costly = max(min(count, LEAST_COSTLY), count // COSTLY_EACH)
    for name, most in (("seed", count), ("costly_seed", costly)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, range(first, first + most) if seed is None else [seed])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What nodes log about misfortune would be most of the time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
