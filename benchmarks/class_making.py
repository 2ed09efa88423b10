"""What a class of values costs to make, as a dataclass and as a Struct, and a broker to import.

``python -m benchmarks.class_making`` makes classes of four fields in both ways, and imports the
modules of a broker in new interpreters.  Processor time; medians.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from typing import Final

FIELDS: Final = """
    name: str
    partition: int
    replicas: tuple[int, ...] = ()
    is_new: bool = False
"""
WAYS: Final = {
    "dataclass": (
        "from dataclasses import dataclass",
        f"@dataclass(frozen=True, slots=True)\nclass Value:{FIELDS}",
    ),
    "Struct": ("from msgspec import Struct", f"class Value(Struct, frozen=True):{FIELDS}"),
}
"""For each way its import and the source of a class."""
_IMPORTED: Final = (
    "import time; import replica_manager.__main__; print(time.process_time())",
    "import time; print(time.process_time())",
)


def making_us(way: str, classes: int) -> float:
    """Microseconds to make a class in this way; the median of ``classes``."""
    imports, source = WAYS[way]
    names: dict[str, object] = {"__name__": __name__}
    exec(imports, names)
    code = compile(f"from __future__ import annotations\n{source}", way, "exec")
    took: list[float] = []
    for _ in range(classes):
        began_s = time.process_time()
        exec(code, names)
        took.append(time.process_time() - began_s)
    return statistics.median(took) * 1e6


def broker_import_s(rounds: int) -> float:
    """Seconds of a broker's imports, without those of Python's own start."""
    took: list[float] = []
    for _ in range(rounds):
        whole, bare = (
            float(
                subprocess.run(
                    [sys.executable, "-c", program], check=True, capture_output=True
                ).stdout
            )
            for program in _IMPORTED
        )
        took.append(whole - bare)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=9, help="interpreters that import a broker")
    options = parser.parse_args()
    dataclass_us, struct_us = (making_us(way, options.classes) for way in WAYS)
    print("                          dataclass    Struct    ratio")
    print(
        f"make a class, us         {dataclass_us:10.0f}{struct_us:10.0f}"
        f"{struct_us / dataclass_us:9.2f}"
    )
    print(f"import a broker, s       {'':10}{broker_import_s(options.rounds):10.2f}")


if __name__ == "__main__":
    main()
