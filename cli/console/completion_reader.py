"""Reads the topics, brokers and groups of a cluster for completions, and caches them in a file.

While the file is younger than :data:`FRESH_S`, its names are used.  Then the cluster is asked, for
:data:`BOUND_S` at most.  If it does not answer, a file younger than :data:`STALE_S` is used, else
there are no names.  Only the user may read the file.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeAlias

from zkcontroller_cli.console.contexts import write_privately, xdg_directory
from zkcontroller_cli.console.shared_settings import Settings

Names: TypeAlias = dict[str, int]
"""Names with a number: for topics the number of partitions, else 0."""

BOUND_S: Final = 0.3
"""Seconds that a completion may wait for a cluster, from the first connection on."""
FRESH_S: Final = 20.0
"""Seconds for which the names in a file are used without asking the cluster."""
STALE_S: Final = 600.0
"""Seconds for which the names in a file are used if the cluster does not answer."""
_VERSION: Final = 1
_MAX_NAMES: Final = 20_000
_MAX_BYTES: Final = 4 << 20
_MAX_FILES: Final = 50


def live_names(given: Settings, kind: str) -> Names:
    """The ``topics``, ``brokers`` or ``groups`` of the cluster that the settings name."""
    key = _cluster_key(given)
    if key is None:
        return {}
    file = CompletionCache(xdg_directory("XDG_CACHE_HOME", ".cache") / "completion", key)
    known, age_s = file.read(kind)
    if known is not None and age_s <= FRESH_S:
        return known
    bounded = replace(given, timeout_s=BOUND_S)
    read = reader_of(bounded, kind)  # its imports must not count as waiting for the cluster
    found = within(BOUND_S, read)
    if found is None:
        return known or {}
    found = dict(list(found.items())[:_MAX_NAMES])
    file.write(kind, found)
    return found


def within(seconds: float, read: Callable[[], Names]) -> Names | None:
    """The result of ``read``; None if it fails or takes longer than ``seconds``."""
    found: list[Names] = []

    def work() -> None:
        try:
            found.append(read())
        except Exception:  # noqa: BLE001 a completion never fails
            found.clear()

    # Read in a daemon thread, which can be abandoned: a lookup of host names has no timeout.
    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else None


def reader_of(given: Settings, kind: str) -> Callable[[], Names]:
    """A function that reads the names from brokers if they are named, else from ZooKeeper.

    It waits at most for the timeout of ``given``.
    """
    # Imported here, not in the returned function, so that imports do not count as waiting time.
    from zkcontroller_cli.wire.requests import Deadline, run

    if kind == "groups":
        from zkcontroller_cli.wire import groups as wire_groups  # noqa: F401
        from zkcontroller_cli.wire.target import registered_brokers

        brokers = given.find_bootstrap()

        def read_groups() -> Names:
            deadline = Deadline(given.deadline_s)
            addresses = registered_brokers(given) if brokers is None else brokers.text
            return run(_groups(given, addresses, deadline))

        return read_groups
    if (address := given.find_bootstrap()) is not None:
        servers = address.text
        return lambda: run(_metadata(given, servers, Deadline(given.deadline_s), kind))
    from zkcontroller.zookeeper.znodes import BrokerIdsZnode, TopicsZnode, TopicZnode
    from zkcontroller_cli.znodes.session import decoded, open_zookeeper

    def read_zookeeper() -> Names:
        with open_zookeeper(given) as zookeeper:
            path = BrokerIdsZnode.PATH if kind == "brokers" else TopicsZnode.PATH
            [children] = zookeeper.children([path])
            names = children if isinstance(children, list) else []
            if kind == "brokers":
                return dict.fromkeys(names, 0)
            znodes = zookeeper.read([TopicZnode.path(name) for name in names])
            found = {
                name: decoded(TopicZnode.decode, name, znode.data)
                for name, znode in zip(names, znodes, strict=True)
                if isinstance(znode, tuple)
            }
            return {name: len(topic.partitions) if topic else 0 for name, topic in found.items()}

    return read_zookeeper


async def _metadata(given: Settings, servers: str, deadline: Any, kind: str) -> Names:
    from zkcontroller_cli.wire.requests import metadata

    known = await metadata(given.servers(servers), deadline, () if kind == "brokers" else None)
    if kind == "brokers":
        return {str(broker.node_id): 0 for broker in known.brokers}
    return {str(topic.name): len(topic.partitions) for topic in known.topics}


async def _groups(given: Settings, servers: str, deadline: Any) -> Names:
    from zkcontroller_cli.wire.groups import list_groups

    return {each.group: 0 for each in await list_groups(given.servers(servers), deadline)}


def _cluster_key(given: Settings) -> str | None:
    """A hash of the cluster's addresses and how to connect; None if no cluster is named."""
    addresses = given.find_zookeeper(), given.find_bootstrap()
    if addresses == (None, None):
        return None
    context = None if given.context is None else given.context.stored()
    files = [
        str(given.command_config_flag or os.environ.get("ZKCTL_COMMAND_CONFIG")),
        str(given.zk_tls_config_flag or os.environ.get("ZKCTL_ZK_TLS_CONFIG_FILE")),
    ]
    named = [address and address.text for address in addresses]
    text = json.dumps([named, context, files], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]


class CompletionCache:
    """The cache file with the names of one cluster; its errors are ignored."""

    def __init__(self, directory: Path, key: str, clock: Callable[[], float] = time.time) -> None:
        self.path = directory / f"{key}.json"
        self._clock = clock

    def read(self, kind: str) -> tuple[Names | None, float]:
        """The cached names and their age in seconds; None if there are none, or if too old."""
        entry = self._entries().get(kind)
        match entry:
            case {"at": int() | float() as at, "names": dict(names)}:
                age_s = self._clock() - at
                # Below 0: the clock was set back, so the age is not known.
                if 0 <= age_s <= STALE_S and all(isinstance(n, int) for n in names.values()):
                    return names, age_s
            case _:
                pass
        return None, 0.0

    def write(self, kind: str, names: Names) -> None:
        """Cache the names; does nothing if the file cannot be written."""
        entries = {**self._entries(), kind: {"at": self._clock(), "names": names}}
        data = json.dumps({"version": _VERSION, "entries": entries}).encode()
        if len(data) > _MAX_BYTES:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_privately(self.path, data)
            self._forget_the_oldest()
        except OSError:
            return

    def _forget_the_oldest(self) -> None:
        files = sorted(self.path.parent.glob("*.json"), key=lambda each: each.lstat().st_mtime)
        for file in files[:-_MAX_FILES]:
            file.unlink(missing_ok=True)

    def _entries(self) -> Mapping[str, Any]:
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                status = os.fstat(handle)
                # A file that other users own, can write or read is not trusted.
                is_own = status.st_uid == os.getuid() and not status.st_mode & 0o077
                if not is_own or not stat.S_ISREG(status.st_mode):
                    return {}
                content = json.loads(file.read(_MAX_BYTES + 1))
        except (OSError, ValueError, RecursionError):
            return {}
        match content:
            case {"version": version, "entries": dict(entries)} if version == _VERSION:
                return entries
            case _:
                return {}
