"""Znodes under ``/delegation_token``: tokens and change notifications.

Source: Kafka ``ZkData`` (``DelegationTokenInfoZNode``, ``DelegationTokenChangeNotificationZNode``),
``DelegationTokenManagerZk.toJsonCompatibleMap``.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct

from kafka_common.errors import ZnodeCorrupt
from kafka_common.sanitizer import desanitize, sanitize
from zkcontroller.zookeeper.scala_order import immutable_map_order
from zkcontroller.zookeeper.znode_json import (
    INT64_MAX,
    INT64_MIN,
    JsonFields,
    json_object,
    json_string,
)

_NEWEST_VERSION: Final = 3
_NAMES_REQUESTER_SINCE: Final = 3


class DelegationTokenZnode(Struct, frozen=True):
    """``/delegation_token/tokens/<id>``, JSON version 3, written by any broker.

    Principals are texts, ``User:alice``; times are milliseconds since 1970.
    """

    ROOT: ClassVar[str] = "/delegation_token/tokens"

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int

    @classmethod
    def path(cls, token_id: str) -> str:
        """The path of that token."""
        return f"{cls.ROOT}/{token_id}"

    def is_owner_or_renewer(self, principal: str) -> bool:
        """Whether that principal owns the token or may renew it."""
        return principal == self.owner or principal in self.renewers

    def encode(self) -> bytes:
        """The data of the znode, byte for byte as Kafka writes it."""
        values = {
            "version": b"%d" % _NEWEST_VERSION,
            "owner": json_string(sanitize(self.owner)),
            "tokenRequester": json_string(sanitize(self.requester)),
            "renewers": b"[%s]"
            % b",".join(json_string(sanitize(renewer)) for renewer in self.renewers),
            "issueTimestamp": b"%d" % self.issue_timestamp,
            "maxTimestamp": b"%d" % self.max_timestamp,
            "expiryTimestamp": b"%d" % self.expiry_timestamp,
            "tokenId": json_string(self.token_id),
        }
        return json_object((key, values[key]) for key in immutable_map_order(list(values)))

    @classmethod
    def decode(cls, path: str, data: bytes) -> DelegationTokenZnode:
        """The token; ZnodeCorrupt for malformed data or an unknown version."""
        fields = JsonFields.parse(path, data)
        version = fields.integer("version", 1, _NEWEST_VERSION)
        owner = _principal(path, fields.text("owner"))
        requester = owner
        if version >= _NAMES_REQUESTER_SINCE:
            requester = _principal(path, fields.text("tokenRequester"))
        return cls(
            fields.text("tokenId"),
            owner,
            requester,
            tuple(_principal(path, renewer) for renewer in fields.array("renewers")),
            fields.integer("issueTimestamp", INT64_MIN, INT64_MAX),
            fields.integer("maxTimestamp", INT64_MIN, INT64_MAX),
            fields.integer("expiryTimestamp", INT64_MIN, INT64_MAX),
        )


class TokenChangeZnode(Struct, frozen=True):
    """``/delegation_token/token_changes/token_change_<number>``: the id of a changed token."""

    ROOT: ClassVar[str] = "/delegation_token/token_changes"
    PREFIX: ClassVar[str] = "token_change_"

    token_id: str

    @property
    def create_path(self) -> str:
        """The path without the number, which ZooKeeper appends."""
        return f"{self.ROOT}/{self.PREFIX}"

    def encode(self) -> bytes:
        """The token id itself."""
        return self.token_id.encode()

    @classmethod
    def decode(cls, path: str, data: bytes) -> TokenChangeZnode:
        """The token id; ZnodeCorrupt for an invalid one."""
        try:
            token_id = data.decode()
        except UnicodeDecodeError:
            raise ZnodeCorrupt(path, "not UTF-8") from None
        if not token_id or "/" in token_id or token_id in (".", "..") or "\0" in token_id:
            raise ZnodeCorrupt(path, "no id of a token")
        return cls(token_id)


def _principal(path: str, text: object) -> str:
    principal = desanitize(text) if isinstance(text, str) else ""
    if ":" not in principal:
        raise ZnodeCorrupt(path, f"principal is not type:name: {principal[:100]!r}")
    return principal
