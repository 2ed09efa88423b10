"""Command lines of zkctl that its texts advise, as they can be copied into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def command_line(verb: str, *arguments: object, options: Iterable[object] = ()) -> str:
    """``zkctl`` with ``verb``, what it is to be done to, and ``options``, all quoted for a shell.

    Where an argument begins with a dash, as a topic's name may, ``--`` stands before the arguments
    and the options before that.
    """
    named, chosen = list(map(str, arguments)), list(map(str, options))
    if any(each.startswith("-") for each in named):
        words = [*chosen, "--", *named]
    else:
        words = [*named, *chosen]
    return shlex.join(["zkctl", *verb.split(), *words])
