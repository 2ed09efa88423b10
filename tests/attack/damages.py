"""What may have become of a file in a log directory: damages, each made by a seeded choice."""

# ruff: noqa: ARG001 - every damage takes the same arguments

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, TypeAlias

ZEROS: Final = 20_000_000
"""Bytes of a file of nothing but zeros."""
NUMBERS: Final = (
    *(-1, -2, -(2**31), -(2**63), -(2**64), -(10**30)),
    *(2**31 - 1, 2**31, 2**62, 2**63 - 1, 2**63, 2**64, 10**19 - 1, 10**30),
)
VERSIONS: Final = (b"", b"-1", b"1", b"99999999999999999999", b"zero", b"0 0", b"\xff")

Apply: TypeAlias = Callable[[Path, Random, Path], None]
"""Damages a file; the tree may be the aim of links."""


class Damage(NamedTuple):
    """One way to damage a file."""

    name: str
    apply: Apply


def _cut(path: Path, random: Random, decoy: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content) or 1)])


def _empty(path: Path, random: Random, decoy: Path) -> None:
    path.write_bytes(b"")


def _remove(path: Path, random: Random, decoy: Path) -> None:
    path.unlink()


def _random(path: Path, random: Random, decoy: Path) -> None:
    path.write_bytes(random.randbytes(random.choice((1, 12, 100, 5_000))))


def _change(path: Path, random: Random, decoy: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 3, 20)) if content else 0):
        content[random.randrange(len(content))] = random.randrange(256)
    path.write_bytes(content)


def _more(path: Path, random: Random, decoy: Path) -> None:
    path.write_bytes(path.read_bytes() + random.randbytes(random.choice((1, 8, 12, 70, 300))))


def _zeros(path: Path, random: Random, decoy: Path) -> None:
    path.write_bytes(bytes(ZEROS))


def _ends_in_zeros(path: Path, random: Random, decoy: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(10_000))


def _number(path: Path, random: Random, decoy: Path) -> None:
    """A word of a text, or some bytes of anything else, become a number that cannot be."""
    content, number = path.read_bytes(), random.choice(NUMBERS)
    lines = content.split(b"\n")
    texts = [place for place, line in enumerate(lines) if line.split()]
    if b"\0" not in content and texts:
        place = random.choice(texts)
        words = lines[place].replace(b"=", b" = ").split()
        words[-1] = b"%d" % number
        lines[place] = b" ".join(words).replace(b" = ", b"=")
        path.write_bytes(b"\n".join(lines))
        return
    whole = struct.pack(">Q", number % 2**64)
    at = random.randrange(max(1, len(content) - len(whole)))
    path.write_bytes(content[:at] + whole + content[at + len(whole) :])


def _last_number(path: Path, random: Random, decoy: Path) -> None:
    """The numbers at the ends of all lines but the first two, or the last bytes."""
    content, number = path.read_bytes(), random.choice(NUMBERS)
    if b"\0" in content:
        path.write_bytes(content[:-8] + struct.pack(">Q", number % 2**64))
        return
    lines = content.split(b"\n")
    lines[2:] = [
        b" ".join((*line.split()[:-1], b"%d" % number)) if line.split() else line
        for line in lines[2:]
    ]
    path.write_bytes(b"\n".join(lines))


def _version(path: Path, random: Random, decoy: Path) -> None:
    content = path.read_bytes()
    version = random.choice(VERSIONS)
    if b"\0" in content:
        path.write_bytes(random.randbytes(2) + content[2:])
    elif b"version" in content:
        wanted = [
            b"version=" + version if line.startswith(b"version=") else line
            for line in content.replace(b"version: ", b"version=").split(b"\n")
        ]
        text = b"\n".join(wanted)
        is_metadata = b"topic_id" in content
        path.write_bytes(text.replace(b"version=", b"version: ") if is_metadata else text)
    else:
        path.write_bytes(version + b"\n" + content.partition(b"\n")[2])


def _double(path: Path, random: Random, decoy: Path) -> None:
    """Lines are there twice, with a count that fits, or the whole file is."""
    content = path.read_bytes()
    lines = content.split(b"\n")
    if b"\0" in content or len(lines) < 4 or not lines[1].isdigit():
        path.write_bytes(content * 2)
        return
    entries = [line for line in lines[2:] if line]
    random.shuffle(entries)
    entries *= 2
    path.write_bytes(b"\n".join((lines[0], b"%d" % len(entries), *entries, b"")))


def _folder(path: Path, random: Random, decoy: Path) -> None:
    path.unlink()
    path.mkdir()
    if random.random() < 0.5:
        (path / "inside").write_bytes(b"not empty")


def _link(path: Path, random: Random, decoy: Path) -> None:
    path.unlink()
    path.symlink_to(decoy / "orders-0" / "00000000000000000000.log")


def _link_to_its_own(path: Path, random: Random, decoy: Path) -> None:
    """A link to the file's own content, which was moved out of the log directory."""
    aside = decoy / f"moved-{path.name}"
    shutil.move(path, aside)
    path.symlink_to(aside)


def _link_to_nothing(path: Path, random: Random, decoy: Path) -> None:
    path.unlink()
    path.symlink_to(decoy / "missing")


def _link_to_a_folder(path: Path, random: Random, decoy: Path) -> None:
    path.unlink()
    path.symlink_to(decoy / "sub")


def _pipe(path: Path, random: Random, decoy: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: Final = tuple(
    Damage(apply.__name__.strip("_"), apply)
    for apply in (
        *(_cut, _empty, _remove, _random, _change, _more, _zeros, _ends_in_zeros),
        *(_number, _last_number, _version, _double),
        *(_folder, _link, _link_to_its_own, _link_to_nothing, _link_to_a_folder, _pipe),
    )
)
