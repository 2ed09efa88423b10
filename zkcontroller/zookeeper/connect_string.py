"""Reads ``zookeeper.connect``, ``host:port,host:port/chroot``, and credentials for ZooKeeper."""

from __future__ import annotations

from typing import Final, NamedTuple

from kafka_common.errors import ConfigInvalid

DEFAULT_PORT: Final = 2181
KEY: Final = "zookeeper.connect"
FORM: Final = "expected host:port,host:port/chroot; an IPv6 address stands in brackets"


class ConnectString(NamedTuple):
    """The ZooKeeper servers, and the path (chroot) below which all znodes of the cluster are."""

    servers: tuple[tuple[str, int], ...]
    chroot: str  # "" for the server's root, else "/a/b"

    @property
    def hosts(self) -> str:
        """The servers without the chroot: ``host:port,[ipv6]:port``."""
        return ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.servers
        )

    def absolute(self, path: str) -> str:
        """``path`` with the chroot."""
        assert path.startswith("/"), path
        chroot = self.chroot
        return chroot + path if path != "/" else chroot or "/"

    def relative(self, path: str) -> str:
        """The server's ``path`` without the chroot."""
        return path[len(self.chroot) :] or "/"


def parse_connect(text: str) -> ConnectString:
    """Servers and chroot of a connect string.

    Raises:
        ConfigInvalid: no server, a host or port that is none, or a chroot that is no path.
    """
    if "\0" in text:
        raise ConfigInvalid(KEY, text, f"the character NUL is in no host and in no path; {FORM}")
    servers, slash, chroot = text.strip().partition("/")
    parsed = tuple(_server(text, part.strip()) for part in servers.split(","))
    names = chroot.rstrip("/").split("/") if chroot.rstrip("/") else []
    if slash and any(name in ("", ".", "..") for name in names):
        raise ConfigInvalid(KEY, text, f"the chroot /{chroot} is not a path; {FORM}")
    return ConnectString(parsed, "".join(f"/{name}" for name in names))


def _server(text: str, part: str) -> tuple[str, int]:
    if part.startswith("["):
        host, bracket, rest = part[1:].partition("]")
        if not bracket or rest[:1] not in ("", ":"):
            raise ConfigInvalid(KEY, text, f"{part!r} is not [address]:port; {FORM}")
        port = rest[1:]
    else:
        host, colon, port = part.partition(":")
        if ":" in port:
            raise ConfigInvalid(KEY, text, f"{part!r} has more than one port; {FORM}")
        if colon and not port:
            raise ConfigInvalid(KEY, text, f"{part!r} lacks its port; {FORM}")
    if not host:
        raise ConfigInvalid(KEY, text, f"a server without a host; {FORM}")
    if not _is_host(host):
        raise ConfigInvalid(KEY, text, f"{host!r} is no host: its labels have 1 to 63 characters")
    if not port:
        return host, DEFAULT_PORT
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ConfigInvalid(KEY, text, f"{port!r} is not a port number (1-65535); {FORM}")
    return host, int(port)


def _is_host(host: str) -> bool:
    """Whether the name can be resolved: its labels are valid for DNS."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def parse_credentials(variable: str, text: str) -> tuple[tuple[str, str], ...]:
    """The scheme and credential in ``digest:user:password``; empty if ``text`` is empty.

    ``sasl:user:password`` is a login by DIGEST-MD5.

    Credentials come from the environment ``variable``.  Every user who lists processes would see an
    argument, and a properties file is often copied.  ConfigInvalid does not show the text.
    """
    if not text:
        return ()
    scheme, _, credential = text.partition(":")
    user, colon, _ = credential.partition(":")
    if scheme not in ("digest", "sasl") or not user or not colon:
        raise ConfigInvalid(variable, "…", "expected digest:USER:PASSWORD or sasl:USER:PASSWORD")
    return ((scheme, credential),)
