"""Asks every ZooKeeper server of the connect string by four-letter words, and checks the answers.

ZooKeeper allows ``srvr`` by default; ``mntr``, ``isro``, ``cons`` and ``conf`` only where
``4lw.commands.whitelist`` lists them.  Source: ZooKeeper's ``FourLetterCommands``.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import TYPE_CHECKING, Final

from zkcontroller_cli.diagnosis.findings import Evidence, Place

if TYPE_CHECKING:
    from zkcontroller_cli.diagnosis.reading import ClusterReading

WORDS: Final = ("srvr", "isro", "mntr", "cons", "conf")
ANSWER_S: Final = 5.0
"""Seconds that a server may take to answer one word."""
MOST_BYTES: Final = 16 * 1024 * 1024
SLOW_MS: Final = 100.0
"""Average request latency in ms above which a server counts as slow."""
MOST_OUTSTANDING: Final = 1000
"""The number of waiting requests at which ZooKeeper stops reading (``globalOutstandingLimit``)."""
FULL: Final = 0.9
"""The share of ``maxClientCnxns`` from which a server counts as nearly full."""

_REFUSED: Final = "not executed because it is not in the whitelist"
_NOT_SERVING: Final = "not currently serving requests"
_LATENCY: Final = re.compile(r"^Latency min/avg/max: *\S+?/([\d.]+)/", re.MULTILINE)
_OUTSTANDING: Final = re.compile(r"^Outstanding: *(\d+)", re.MULTILINE)
_MODE: Final = re.compile(r"^Mode: *(\S+)", re.MULTILINE)
_ZXID: Final = re.compile(r"^Zxid: *0x([0-9a-f]+)", re.MULTILINE)
_LIMIT: Final = re.compile(r"^maxClientCnxns=(-?\d+)", re.MULTILINE)
_MEMBER: Final = re.compile(r"^server\.\d+=", re.MULTILINE)
_CLIENT: Final = re.compile(r"^ */?(.+):\d+\[\d+\]\((.*)\)", re.MULTILINE)
_SESSION: Final = re.compile(r"\bsid=(0x[0-9a-f]+)")


@dataclass
class ServerReading:
    """What one ZooKeeper server answered; ``error`` says why it did not."""

    address: str
    error: str | None = None
    words: dict[str, str] = field(default_factory=dict)
    """By word, the server's answer; a word that it does not execute is missing."""

    @property
    def mode(self) -> str | None:
        """``leader``, ``follower``, ``observer``, ``standalone`` or ``read-only``.

        None if the server did not say it.
        """
        found = _MODE.search(self.words.get("srvr", ""))
        return None if found is None else found[1]

    @property
    def has_no_quorum(self) -> bool:
        """True when the server answers that it serves no requests."""
        return _NOT_SERVING in self.words.get("srvr", "")

    @property
    def epoch(self) -> int | None:
        """The ZooKeeper leader epoch in the server's last zxid; None if not known."""
        found = _ZXID.search(self.words.get("srvr", ""))
        return None if found is None else int(found[1], 16) >> 32

    def evidence(self, word: str, what: str) -> Evidence:
        """Evidence ``what``, found in this server's answer to ``word``."""
        return Evidence(f"{word} of {self.address}", what)


async def read_ensemble(
    servers: Sequence[tuple[str, int]], tls: SSLContext | None
) -> list[ServerReading]:
    """Ask all servers at once; ``error`` of a result says why that server did not answer."""
    return list(await asyncio.gather(*(_ask(host, port, tls) for host, port in servers)))


async def _ask(host: str, port: int, tls: SSLContext | None) -> ServerReading:
    reading = ServerReading(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    try:
        for word in WORDS:
            text = await asyncio.wait_for(_word(host, port, tls, word), ANSWER_S)
            if text and _REFUSED not in text:
                reading.words[word] = text
            if reading.has_no_quorum:
                break
    except TimeoutError:
        reading.error = f"no answer within {ANSWER_S:g} s"
    except OSError as error:
        reading.error = error.strerror or str(error)
    return reading


async def _word(host: str, port: int, tls: SSLContext | None, word: str) -> str:
    """The answer to one word; empty if the server closes the connection, as old ones may."""
    name = host if tls is not None else None
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)
    try:
        writer.write(word.encode())
        await writer.drain()
        response = bytearray()
        while (chunk := await reader.read(65536)) and len(response) < MOST_BYTES:
            response += chunk
        return response.decode(errors="replace")
    finally:
        writer.close()


def unchecked_servers(servers: Sequence[ServerReading]) -> list[Evidence]:
    """Evidence for each server whose health is not known, because it does not execute ``srvr``."""
    return [
        server.evidence("srvr", "it is not in 4lw.commands.whitelist")
        for server in servers
        if server.error is None and "srvr" not in server.words
    ]


def sick_servers(reading: ClusterReading) -> Iterator[Place]:
    """Z02: servers that do not answer, have no quorum, are read-only, alone or behind."""
    servers = reading.servers
    leaders = [server for server in servers if server.mode == "leader"]
    for server in servers:
        if server.error is not None:
            yield Place(server.evidence("srvr", server.error))
        elif server.has_no_quorum:
            yield Place(server.evidence("srvr", "serves no requests: it has no quorum"))
        elif server.mode == "read-only" or server.words.get("isro") == "ro":
            yield Place(server.evidence("isro", "is read-only: it has lost the quorum"))
        elif server.mode == "standalone" and len(servers) > 1:
            what = f"stands alone; the connect string names {len(servers)} servers"
            yield Place(server.evidence("srvr", what))
        elif server.mode == "leader" and len(leaders) > 1:
            yield Place(server.evidence("srvr", "leads, and so does another server"))
        elif server.mode == "leader" and (behind := _followers_behind(server)):
            yield Place(server.evidence("mntr", behind))
        elif (
            server.mode in ("follower", "observer")
            and len(leaders) == 1
            and server.epoch != leaders[0].epoch
        ):
            what = f"is in epoch {server.epoch}, the leader in {leaders[0].epoch}"
            yield Place(server.evidence("srvr", what))


def _followers_behind(leader: ServerReading) -> str | None:
    numbers = _numbers(leader.words.get("mntr", ""))
    learners = numbers.get("zk_learners", numbers.get("zk_followers"))
    if learners is None or "zk_synced_followers" not in numbers:
        return None
    synced = numbers["zk_synced_followers"] + numbers.get("zk_synced_observers", 0)
    if synced >= learners:
        return None
    return f"{learners:.0f} servers follow it, {synced:.0f} of them are in sync"


def _numbers(response: str) -> Mapping[str, float]:
    numbers = {}
    for line in response.splitlines():
        name, _, value = line.partition("\t")
        try:
            numbers[name] = float(value)
        except ValueError:
            continue  # not a number, but a version or a state
    return numbers


def strained_servers(reading: ClusterReading) -> Iterator[Place]:
    """Z03: slow or overloaded servers, few connections left, broker sessions without connection."""
    for server in reading.servers:
        response = server.words.get("srvr", "")
        latency = _LATENCY.search(response)
        if latency is not None and float(latency[1]) > SLOW_MS:
            what = f"a request takes {float(latency[1]):,.0f} ms on average since the start"
            yield Place(server.evidence("srvr", what))
        outstanding = _OUTSTANDING.search(response)
        if outstanding is not None and int(outstanding[1]) >= MOST_OUTSTANDING:
            yield Place(server.evidence("srvr", f"{int(outstanding[1]):,} requests are waiting"))
        yield from _nearly_full(server)
    yield from _cut_off(reading)


def _nearly_full(server: ServerReading) -> Iterator[Place]:
    limit = _LIMIT.search(server.words.get("conf", ""))
    if limit is None or int(limit[1]) <= 0 or "cons" not in server.words:
        return
    hosts = Counter(host for host, _ in _CLIENT.findall(server.words["cons"]))
    for host, count in sorted(hosts.items()):
        if count >= FULL * int(limit[1]):
            what = f"{count} connections from {host}, maxClientCnxns={limit[1]}"
            yield Place(server.evidence("cons", what))


def _cut_off(reading: ClusterReading) -> Iterator[Place]:
    """Registered brokers whose session has no connection to any server, and has not expired."""
    if not reading.servers or sessions_note(reading.servers) is not None:
        return
    connected = {
        session for server in reading.servers for session in _SESSION.findall(server.words["cons"])
    }
    for broker_id, registration in sorted(reading.registrations.items()):
        if registration.session_id is not None and registration.session_id not in connected:
            what = f"session {registration.session_id} is registered and has no connection"
            where = f"cons of all servers, for broker {broker_id}"
            yield Place(Evidence(where, what), broker=broker_id)


def sessions_note(servers: Sequence[ServerReading]) -> str | None:
    """Why brokers' sessions cannot be compared with the servers' connections; None if they can."""
    for server in servers:
        if server.error is not None or server.has_no_quorum:
            return f"{server.address} does not show its connections"
        if not {"cons", "conf"} <= set(server.words):
            return f"4lw.commands.whitelist of {server.address} lacks cons or conf"
    members = max((len(_MEMBER.findall(server.words["conf"])) for server in servers), default=0)
    if members > len(servers):
        return f"the ensemble has {members} servers, the connect string names {len(servers)}"
    return None
