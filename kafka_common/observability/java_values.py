"""Values as Java and Kafka's generated classes print them inside log lines.

Source: ``AbstractCollection.toString``, ``Optional.toString``, Kafka ``MessageDataGenerator``
(its ``toString``), ``Node``, ``InetSocketAddress``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from ipaddress import ip_address
from typing import Any, Final
from uuid import UUID

from kafka_common.model import address_text
from kafka_common.protocol.uuid_text import uuid_text

_BEFORE_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")


def java_list(values: Iterable[object] | None) -> str:
    """The values as a Java list, ``[1, 2]``; None prints as an empty list."""
    return f"[{', '.join(map(str, values or ()))}]"


def boolean(value: bool | None) -> str:
    """``true`` or ``false``; None counts as false."""
    return "true" if value else "false"


def optional(value: object | None) -> str:
    """The value as a Java ``Optional``: ``Optional[1]`` or ``Optional.empty``."""
    return "Optional.empty" if value is None else f"Optional[{value}]"


def node(broker_id: int | None, address: str | None, rack: str | None) -> str:
    """A broker as Kafka's ``Node`` prints it: ``127.0.0.1:9092 (id: 2 rack: null)``."""
    return f"{address} (id: {broker_id} rack: {'null' if rack is None else rack})"


def socket_address_text(host: str, port: int, ip: str | None = None) -> str:
    """The address as Java prints it: ``/127.0.0.1:9092``, or ``localhost/127.0.0.1:9092``.

    ``ip``: what ``host`` was resolved to; None if that is not known, or ``host`` is one itself.
    """
    try:
        ip_address(host)
    except ValueError:
        return f"{host}/{ip or '<unresolved>'}:{port}"
    return f"/{address_text(host, port)}"


def message_text(message: Any) -> str:
    """A dataclass with the fields of a generated class: ``FenceBrokerRecord(id=1, epoch=5)``."""
    kind: Any = type(message)
    values = (f"{field}={_value_text(getattr(message, name))}" for name, field in _names_of(kind))
    return f"{kind.__name__}({', '.join(values)})"


def _value_text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return boolean(value)
        case str():
            return f"'{value}'"
        case bytes():
            return java_list(byte - 256 if byte > 127 else byte for byte in value)
        case UUID():
            return uuid_text(value)
        case tuple() | list():
            return java_list(map(_value_text, value))
        case int() | float():
            return str(value)
        case _:
            return message_text(value)


@cache
def _names_of(kind: Any) -> tuple[tuple[str, str], ...]:
    """Each field's name, and Kafka's name for it."""
    names = [field.name for field in fields(kind)]
    return tuple((name, camel_case(name)) for name in names)


def upper_snake_case(name: str) -> str:
    """The name of a class as that of a constant: ``BEGIN_QUORUM_EPOCH``."""
    return _BEFORE_CAPITAL.sub("_", name).upper()


def camel_case(name: str) -> str:
    """The name as Java has it: ``brokerId`` for ``broker_id``."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
