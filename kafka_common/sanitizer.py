"""Names of users, client ids and addresses: encoded for znodes and metrics, and checked.

Source: Kafka ``Sanitizer``; ``ZooKeeperInternals.DEFAULT_STRING``.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import quote, unquote_plus

DEFAULT_ENTITY: Final = "<default>"


def sanitize(name: str) -> str:
    """A user, client id or IP as a znode's name (URL encoding)."""
    # quote() leaves "~" as it is, but Java encodes it; Kafka encodes "*", which Java does not.
    return quote(name, safe="-._").replace("~", "%7E")


def desanitize(name: str) -> str:
    """The inverse of :func:`sanitize`."""
    return unquote_plus(name)


def is_ip_address(text: str) -> bool:
    """Whether the text is an IPv4 address, or an IPv6 address, perhaps with a zone."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
