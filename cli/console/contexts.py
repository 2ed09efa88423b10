"""The file of contexts: clusters by name, each with its addresses and how to connect to it.

``$XDG_CONFIG_HOME/zkctl/contexts.json``, or the file that ``ZKCTL_CONFIG`` names.  It holds no
secret, only the paths of files with keys and passwords; ``ZKCTL_ZOOKEEPER_AUTH`` stays in the
environment.  The file is replaced atomically, under a lock, and only its owner may read it.  An
invalid file is never overwritten.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zkcontroller_cli.console.errors import BadUsage, Refused

_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20
"""The largest file of contexts that is read."""
_MAX_CONTEXTS: Final = 1_000
_MAX_TIMEOUT_S: Final = 1e9
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}")


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """A cluster by name; None for what the context does not set."""

    name: str
    zookeeper: str | None = None
    bootstrap_servers: str | None = None
    command_config: str | None = None
    zk_tls_config: str | None = None
    output: str | None = None
    timeout_s: float | None = None

    def stored(self) -> dict[str, str | float]:
        """The values that the context sets, as the file holds them."""
        values = {key: getattr(self, key) for key in CONTEXT_KEYS}
        return {key: value for key, value in values.items() if value is not None}


CONTEXT_KEYS: Final = tuple(key for key in ClusterContext.__slots__ if key != "name")
"""The keys that a context may set, in the order in which they are shown."""


@dataclass
class ContextFile:
    """The contexts of a file, and which one is current."""

    path: Path
    current: str | None = None
    contexts: dict[str, ClusterContext] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> ContextFile:
        """The contexts of a file, none where it does not exist; Refused if it cannot be read."""
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return cls(path)
        except OSError as error:
            raise Refused(
                f"the contexts in {path} cannot be read: {error.strerror}; "
                "ZKCTL_CONFIG=FILE names another file"
            ) from error
        try:
            if len(data) > _MAX_BYTES:
                raise ValueError(f"it is longer than {_MAX_BYTES} bytes")
            return cls._of(path, json.loads(data))
        except (ValueError, RecursionError) as error:
            raise Refused(
                f"{path} is not a file of contexts: {error}; correct it or move it away, it was "
                "left as it is"
            ) from error

    @classmethod
    def _of(cls, path: Path, content: object) -> ContextFile:
        match content:
            case {"version": version, **_others} if version != _VERSION:
                raise ValueError(f"its version is {version!r}, this zkctl knows {_VERSION}")
            case {"version": _, "contexts": dict(contexts), **others}:
                pass
            case _:
                raise ValueError("it is no object with version and contexts")
        current = others.pop("current", None)
        if others:
            raise ValueError(f"its key {next(iter(others))!r} is unknown")
        found = {name: _context(name, values) for name, values in contexts.items()}
        if current is None or (isinstance(current, str) and current in found):
            return cls(path, current, found)
        raise ValueError(f"its current context {current!r} is not among its contexts")

    def named(self, name: str) -> ClusterContext:
        """The context of that name; Refused if there is none."""
        if name not in self.contexts:
            known = ", ".join(self.contexts) or "none"
            raise Refused(
                f"there is no context {name!r} in {self.path}, which has {known}: "
                "zkctl context set NAME makes one"
            )
        return self.contexts[name]

    def _save(self) -> None:
        content = {
            "version": _VERSION,
            **({} if self.current is None else {"current": self.current}),
            "contexts": {name: each.stored() for name, each in self.contexts.items()},
        }
        # If the path is a symbolic link, its target is replaced, not the link.
        write_privately(self.path.resolve(), (json.dumps(content, indent=2) + "\n").encode())


def _context(name: str, values: object) -> ClusterContext:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a context")
    if not isinstance(values, dict):
        raise ValueError(f"context {name!r} is no object")
    for key, value in values.items():
        if key not in CONTEXT_KEYS:
            known = ", ".join(CONTEXT_KEYS)
            raise ValueError(f"context {name!r} has the unknown key {key!r}; known are {known}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number if key == "timeout_s" else isinstance(value, str) and value):
            raise ValueError(f"context {name!r} has the {key} {value!r}")
    timeout_s = values.get("timeout_s")
    if timeout_s is not None and not 0 < timeout_s <= _MAX_TIMEOUT_S:
        raise ValueError(f"context {name!r} has the timeout_s {timeout_s!r}")
    return ClusterContext(name, **values)


def check_name(name: str) -> str:
    """The name, if a context may have it; else BadUsage."""
    if not _NAME.fullmatch(name):
        raise BadUsage(
            f"{name!r} cannot be the name of a context: letters, digits, '.', '_', '@' and '-', "
            "at most 100, not '.', '@' or '-' first"
        )
    return name


def context_path() -> Path:
    """The path of the file of contexts, which may not exist yet."""
    if named := os.environ.get("ZKCTL_CONFIG"):
        return Path(named)
    return xdg_directory("XDG_CONFIG_HOME", ".config") / "contexts.json"


def xdg_directory(variable: str, default: str) -> Path:
    """The directory ``zkctl`` below the one that the variable names, or below ``~/default``."""
    home = os.environ.get(variable, "")
    # The XDG specification: a relative path is to be ignored.
    base = Path(home) if os.path.isabs(home) else Path.home() / default
    return base / "zkctl"


@contextmanager
def context_changes(path: Path) -> Iterator[ContextFile]:
    """The contexts, to be changed in a ``with`` block; saved at its end, unless it raises.

    A lock keeps other ``zkctl`` processes from changing them at the same time.
    """
    import fcntl

    try:
        target = path.resolve()
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Lock a separate file: each save replaces the file of contexts, so a lock on it would be
        # lost.
        lock = os.open(f"{target}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of symbolic links
        raise Refused(
            f"{path} cannot be written: {error}; ZKCTL_CONFIG=FILE names another"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        contexts = ContextFile.load(path)
        yield contexts
        if len(contexts.contexts) > _MAX_CONTEXTS:
            raise Refused(f"{path} has {_MAX_CONTEXTS} contexts, the most it may have: delete one")
        try:
            contexts._save()
        except OSError as error:
            raise Refused(
                f"{path} cannot be written: {error.strerror}; it was left as it is"
            ) from error
    finally:
        os.close(lock)


def write_privately(path: Path, data: bytes) -> None:
    """Replace a file atomically, with mode 0600."""
    import tempfile

    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def context_row(context: ClusterContext, current: str | None) -> dict[str, Any]:
    """A context as a row of output."""
    values = {key: getattr(context, key) for key in CONTEXT_KEYS}
    return {"context": context.name, "is_current": context.name == current, **values}
