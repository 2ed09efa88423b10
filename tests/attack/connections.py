"""A client without manners: raw frames, half frames and resets, if need be after a login."""

from __future__ import annotations

import contextlib
import secrets
import select
import socket
import struct
import time
from enum import Enum
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from kio.schema.errors import ErrorCode

from kafka_common.net.client_security import Credentials
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, request_type, write
from kafka_common.protocol.sasl_client import ScramClient
from kafka_common.protocol.scram import MECHANISMS
from tests.attack.shapes import Message
from tests.support.frames import request_header

CONNECT_S: Final = 20.0
ANSWER_S: Final = 60.0
"""For the answers that a login and a look around need."""
_RECEIVE_BYTES: Final = 1 << 20
_LINGER_NOT: Final = struct.pack("ii", 1, 0)


class Ending(Enum):
    """What came of a request."""

    ANSWERED = "answered"
    CLOSED = "closed"
    SILENT = "no answer"


class Outcome(NamedTuple):
    """How a request ended, and how large its answer was."""

    ending: Ending
    answer_bytes: int = 0


class RawConnection:
    """One socket to a broker or a controller; logged in if there are credentials."""

    def __init__(self, address: str, credentials: Credentials | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), CONNECT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if credentials is not None:
            self._log_in(credentials)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """An orderly end."""
        self._socket.close()

    def reset(self) -> None:
        """A RST: what was asked is of no use to this client any more."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._socket.close()

    def send(self, data: bytes, patience_s: float = ANSWER_S) -> bool:
        """Sends bytes as they are; False if the peer has closed, or takes no more of them."""
        self._socket.settimeout(patience_s)
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def ask(self, asked: Message, patience_s: float) -> Outcome:
        """Sends a request and waits for the end of its answer, or of the connection."""
        if not self.send(asked.framed(), patience_s):
            return Outcome(self._ending_of_a_refused_send())
        return self.await_answer(patience_s)

    def _ending_of_a_refused_send(self) -> Ending:
        readable, _, _ = select.select([self._socket], [], [], 0)
        return Ending.CLOSED if readable else Ending.SILENT

    def await_answer(self, patience_s: float) -> Outcome:
        """Reads one answer and throws it away."""
        deadline = time.monotonic() + patience_s
        try:
            size = struct.unpack(">i", self._receive(4, deadline))[0]
            left = size
            while left:
                left -= len(self._receive(min(left, _RECEIVE_BYTES), deadline))
        except TimeoutError:
            return Outcome(Ending.SILENT)
        except OSError:
            return Outcome(Ending.CLOSED)
        return Outcome(Ending.ANSWERED, size)

    def call(self, api_key: int, version: int, body: bytes) -> bytes:
        """One right request of ours; its answer behind the correlation id."""
        data = request_header(api_key, version, 1, "attacker") + body
        assert self.send(struct.pack(">i", len(data)) + data)
        deadline = time.monotonic() + ANSWER_S
        size = struct.unpack(">i", self._receive(4, deadline))[0]
        return self._receive(size, deadline)[4:]

    def _receive(self, size: int, deadline: float) -> bytes:
        parts = []
        while size:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            part = self._socket.recv(size)
            if not part:
                raise ConnectionResetError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _log_in(self, credentials: Credentials) -> None:
        mechanism: Any = request_type(ApiKey.SASL_HANDSHAKE, 1)
        self.call(ApiKey.SASL_HANDSHAKE, 1, write(mechanism(mechanism=credentials.mechanism)))
        client = ScramClient(
            MECHANISMS[credentials.mechanism],
            credentials.username,
            credentials.password,
            secrets.token_urlsafe(24),
        )
        token = client.first()
        while not client.is_complete:
            token = client.step(self._authenticate(token))

    def _authenticate(self, token: bytes) -> bytes:
        request: Any = request_type(ApiKey.SASL_AUTHENTICATE, 1)
        body = self.call(ApiKey.SASL_AUTHENTICATE, 1, write(request(auth_bytes=token)))
        response: Any = read_response(ApiKey.SASL_AUTHENTICATE, 1, body)
        assert response.error_code is ErrorCode.none, response
        challenge: bytes = response.auth_bytes
        return challenge


def is_serving(address: str, patience_s: float) -> bool:
    """Whether a new connection gets an answer to ApiVersions."""
    asked = Message(
        ApiKey.API_VERSIONS, 0, "probe", request_header(ApiKey.API_VERSIONS, 0, 1, "probe")
    )
    with contextlib.suppress(OSError), RawConnection(address) as connection:
        return connection.ask(asked, patience_s).ending is Ending.ANSWERED
    return False


def offered(address: str, credentials: Credentials | None = None) -> dict[int, tuple[int, int]]:
    """API key to first and last version, as the peer advertises them."""
    with RawConnection(address, credentials) as connection:
        body = connection.call(ApiKey.API_VERSIONS, 0, b"")
    response: Any = read_response(ApiKey.API_VERSIONS, 0, body)
    return {
        int(each.api_key): (int(each.min_version), int(each.max_version))
        for each in response.api_keys
    }
