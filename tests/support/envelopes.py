"""What a broker puts into the Envelope of a request that it forwards."""

from __future__ import annotations

from struct import Struct
from typing import Final

from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

from kafka_common.protocol.messages import write
from replica_manager.security.principals import Principal

_PRINCIPAL_VERSION: Final = 0
_VERSION: Final = Struct(">h")


def principal_bytes(principal: Principal, *, is_token_authenticated: bool = False) -> bytes:
    """A principal as a broker puts it into an Envelope."""
    data = DefaultPrincipalData(
        type_=principal.principal_type,
        name=principal.name,
        token_authenticated=is_token_authenticated,
    )
    return _VERSION.pack(_PRINCIPAL_VERSION) + write(data)
