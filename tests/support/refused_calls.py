"""System calls that a limit refuses, one at a time: the first, the second, and so on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest import mock

_OPENING: Final = frozenset({"open"})
_MAKING: Final = frozenset(
    {"open", "write", "pwrite", "pwritev", "ftruncate", "rename", "replace", "mkdir"}
)
_ANY: Final = _MAKING | {"stat", "fstat", "pread", "read", "unlink", "scandir", "listdir"}
CALLS: Final = {errno.EMFILE: _OPENING, errno.ENOSPC: _MAKING, errno.ENOMEM: _ANY}
"""The functions of ``os`` that each limit may refuse."""


class RefusedCall:
    """Counts the calls that a limit may refuse, and refuses one of them."""

    def __init__(self, code: int, number: int) -> None:
        self.code = code
        self.number = number
        self.count = 0
        self.name: str | None = None
        """The function whose call was refused."""

    def around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.number:
                self.name = name
                raise OSError(self.code, os.strerror(self.code))
            return real(*arguments, **named)

        return called


@contextmanager
def refused_call(code: int, number: int) -> Iterator[RefusedCall]:
    """Refuses the call with that number, from 1 on, of those that the limit may refuse.

    ``name`` of the result stays None if there were not so many.
    """
    refused = RefusedCall(code, number)
    with ExitStack() as patches:
        for name in CALLS[code]:
            called = refused.around(name, getattr(os, name))
            patches.enter_context(mock.patch.object(os, name, called))
        yield refused
