"""The access control list of each new znode.

Source: Kafka 3.9 ``ZkData.defaultAcls``, ``ZkData.SensitiveRootPaths``.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

READ: Final = 1
ALL: Final = 31

CONSUMERS: Final = "/consumers"
# Only sessions with the broker's credential may read these: they hold passwords and secrets.
SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")


class Acl(NamedTuple):
    """One entry of a znode's access control list: permissions (a bit mask), scheme and id."""

    permissions: int
    scheme: str
    identity: str


OPEN: Final[tuple[Acl, ...]] = (Acl(ALL, "world", "anyone"),)
# "auth" with no name means every identity of this session.
CREATOR_ONLY: Final[tuple[Acl, ...]] = (Acl(ALL, "auth", ""),)
CREATOR_AND_READERS: Final[tuple[Acl, ...]] = (*CREATOR_ONLY, Acl(READ, "world", "anyone"))


def encode_acls(acls: tuple[Acl, ...]) -> bytes:
    """The list in ZooKeeper's wire format."""
    integer = Struct("!i").pack
    parts = [integer(len(acls))]
    for acl in acls:
        scheme, identity = acl.scheme.encode(), acl.identity.encode()
        parts += (integer(acl.permissions), integer(len(scheme)), scheme)
        parts += (integer(len(identity)), identity)
    return b"".join(parts)


def acls_for(path: str, *, set_acl: bool) -> tuple[Acl, ...]:
    """The list for a new znode at ``path`` (without chroot); ``set_acl`` is zookeeper.set.acl."""
    if not set_acl or path == CONSUMERS:
        return OPEN
    return CREATOR_ONLY if path.startswith(SENSITIVE) else CREATOR_AND_READERS


_ENCODED: Final = {acls: encode_acls(acls) for acls in (OPEN, CREATOR_ONLY, CREATOR_AND_READERS)}


def encoded_acls_for(path: str, *, set_acl: bool) -> bytes:
    """The list of :func:`acls_for`, encoded for a create request."""
    return _ENCODED[acls_for(path, set_acl=set_acl)]
