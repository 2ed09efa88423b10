"""The connection of a ZooKeeper session: kazoo, adapted to bulk requests.  Only kazoo importer.

kazoo finds servers, opens and resumes sessions, sends pings, and reconnects without limit.  Four
things are ours:

* Requests are :class:`PendingRequest` values in kazoo's queue.  Their replies are passed on
  undecoded, so that the caller's thread decodes them.
* Watches: kazoo loses them with every connection.  Here a resumed session sets them again with
  ``setWatches``, before any other request is sent, as ZooKeeper's own client does.
* TLS with the caller's context; and SASL logins that are tried again if the connection is lost.
* A malformed reply drops the connection.  In kazoo it ends the thread.

Any thread may call :meth:`ZooKeeperConnection.send`, ``stop_within`` and
:meth:`PendingRequest.wait`; the rest runs in kazoo's connection thread.

Source: ZooKeeper 3.9 ``ClientCnxn.SendThread`` (``primeConnection``, ``readResponse``).
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionDropped,
    KazooException,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.connection import CLOSE_RESPONSE, PING_XID, WATCH_XID, ConnectionHandler
from kazoo.protocol.serialization import SASL, CloseInstance, ReplyHeader
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from kafka_common.errors import AuthenticationFailed, SaslRefused, SessionExpired
from kafka_common.observability.java_values import socket_address_text
from zkcontroller.zookeeper.digest_md5 import DigestMd5Login
from zkcontroller.zookeeper.jute import OpCode, Reply, code_of, decode_watch
from zkcontroller.zookeeper.plans import Ask, ConnectionLostError
from zkcontroller.zookeeper.read_plan import requests_to_arm_again
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.watch_table import WatchTable, WatchType

# The data of a thousand znodes of the largest size; ZooKeeper sends no longer frame.
MAX_FRAME_BYTES: Final = 1 << 30
RECONNECT_DELAY_S: Final = 0.1
RECONNECT_MAX_DELAY_S: Final = 1.0
SET_WATCHES_XID: Final = -8  # as ZooKeeper's own client; kazoo counts its xids up from 1
REPLY_HEADER_BYTES: Final = 16
SASL_SCHEME: Final = "sasl"
MAX_LOGIN_ROUNDS: Final = 4
"""The most rounds of a SASL login; DIGEST-MD5 takes two."""
CAUTIOUS_REQUESTS: Final = 100
"""Requests that are sent one at a time after a lost connection, besides those that it had, if a
request that was in flight is not sent again meanwhile."""
LOGIN_REQUIRED: Final = -124
"""The error code SESSIONCLOSEDREQUIRESASLAUTH of a server that requires a SASL login."""
_LOGIN_REFUSED: Final = (-115, LOGIN_REQUIRED)

# kazoo prints requests at DEBUG, credentials among them, so its logger starts at INFO.
_log = logging.getLogger("org.apache.zookeeper.ClientCnxn")
_log.setLevel(logging.INFO)


class PendingRequest:
    """A request that waits for its reply; kazoo uses it as its asynchronous result.

    ``watches`` is the table of the request's session.  ``on_done`` is called once: with the
    milliseconds until the reply, or with None if there is no reply.
    """

    def __init__(
        self,
        ask: Ask,
        generation: int,
        watches: WatchTable,
        on_done: Callable[[PendingRequest, float | None], None],
    ) -> None:
        self.ask = ask
        self.generation = generation
        self._watches = watches
        self._on_done = on_done
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self._outcome: Reply | Exception | None = None
        self.was_alone = False
        """Whether the connection was lost while this was the only request in flight."""

    def wait(self) -> Reply:
        """Blocks until there is a reply.

        Raises ConnectionLostError, SessionExpired or AuthenticationFailed if there will be none.
        """
        self._finished.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, Reply):
            return self._outcome
        raise self._outcome

    def complete(self, reply: Reply) -> None:
        """Sets the reply.

        The watch that the request set is added to the table first, because its notification may
        arrive next.
        """
        if self.ask.watch is not None:
            kind, path = self.ask.watch
            if reply.code is ZkCode.OK:
                self._watches.arm(kind, (path,), reply.zxid)
            elif reply.code is ZkCode.NO_NODE and self.ask.opcode is OpCode.EXISTS:
                self._watches.arm(WatchType.EXISTS, (path,), reply.zxid)
        self._end(reply)

    def fail(self, error: Exception) -> None:
        """Sets the error: there will be no reply."""
        self._end(error)

    def set_exception(self, error: Exception) -> None:
        """Called by kazoo if there will be no reply: translates kazoo's error."""
        match error:
            case SessionExpiredError() | ConnectionClosedError():
                self._end(SessionExpired(f"the ZooKeeper session is over ({error!r})"))
            case AuthFailedError():
                why = f": {error}" if str(error) else ""
                self._end(AuthenticationFailed(f"ZooKeeper refused the credentials{why}"))
            case _:
                self._end(ConnectionLostError(repr(error), was_alone=self.was_alone))

    def _end(self, outcome: Reply | Exception) -> None:
        with self._lock:
            if self._outcome is not None:
                return
            self._outcome = outcome
        elapsed_ms = (time.monotonic() - self._began) * 1000
        try:
            self._on_done(self, elapsed_ms if isinstance(outcome, Reply) else None)
        finally:
            self._finished.set()


class Listener(Protocol):
    """Callbacks for the session above this connection."""

    @property
    def generation(self) -> int:
        """The number of the current session."""

    @property
    def watches(self) -> WatchTable:
        """The watches of the current session."""

    def connected(self, session_id: int) -> None:
        """A session was opened or resumed."""

    def suspended(self) -> None:
        """The connection is lost."""

    def expired(self) -> None:
        """The session has expired; kazoo opens the next."""

    def authentication_failed(self) -> None:
        """The credentials were refused at the first connection; kazoo gives up."""

    def login_refused(self) -> None:
        """They were refused at a later connection; kazoo tries the next."""

    def closed(self) -> None:
        """The session was closed by :meth:`ZooKeeperConnection.stop_within`."""

    def fired(self, kind: int, path: str) -> None:
        """A notification arrived; ``path`` includes the chroot."""


class _TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo is untyped
    """kazoo's threads, with sockets under TLS."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__()
        self._tls = tls

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: object
    ) -> ssl.SSLSocket:
        """A socket after its handshake; OSError if there is none."""
        plain = super().create_connection(address, timeout=timeout)
        try:
            return self._tls.wrap_socket(plain, server_hostname=hostname)
        except BaseException:
            plain.close()
            raise


class ZooKeeperConnection(KazooClient):  # type: ignore[misc]  # kazoo is untyped
    """A client of one ensemble: opens sessions and sockets one after the other.

    ``hosts`` is kazoo's host list without a chroot: paths in requests are the server's.
    """

    def __init__(
        self,
        listener: Listener,
        hosts: str,
        *,
        session_timeout_ms: int,
        auth: tuple[tuple[str, str], ...],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        # Set before kazoo's own constructor, which already resets the session.
        self._listener = listener
        super().__init__(
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            auth_data={each for each in auth if each[0] != SASL_SCHEME},
            handler=None if tls is None else _TlsHandler(tls),
            connection_retry=KazooRetry(
                max_tries=-1, delay=RECONNECT_DELAY_S, max_delay=RECONNECT_MAX_DELAY_S
            ),
            logger=_log,
        )
        login = next((credential for scheme, credential in auth if scheme == SASL_SCHEME), None)
        self._connection = self._socket_loop = _SocketLoop(
            self, self._conn_retry.copy(), listener, login
        )

    @property
    def last_error(self) -> str:
        """The reason why the last failed attempt to connect failed; "" if none failed."""
        return self._socket_loop.last_error

    def send(self, pending: PendingRequest) -> None:
        """Queues a request; it is sent as soon as there is a connection."""
        self._call(pending.ask, pending)

    def is_own_thread(self) -> bool:
        """Whether the caller runs in the connection thread, which reads all replies."""
        return self._socket_loop.is_own_thread()

    def stop_within(self, seconds: float, *, has_session: bool) -> None:
        """Closes the session; without one, or a reply after ``seconds``, cuts the connection."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._queue.append((CloseInstance, None))
            self._socket_loop.wake()
        if not self._socket_loop.connection_stopped.wait(seconds if has_session else 0):
            self._socket_loop.cut()
        self.handler.stop()
        if self._socket_loop.stop(seconds):
            self.close()

    def _session_callback(self, state: str) -> None:
        before = self._state
        if state == KeeperState.CONNECTING and before == KeeperState.CONNECTED:
            self._socket_loop.note_drop()
        super()._session_callback(state)
        if state == before:
            return
        match state:
            case KeeperState.CONNECTED:
                self._listener.connected(self._session_id)
            case KeeperState.CONNECTING if before == KeeperState.CONNECTED:
                self._listener.suspended()
            case KeeperState.EXPIRED_SESSION:
                self._listener.expired()
            case KeeperState.AUTH_FAILED:
                self._listener.authentication_failed()
            case KeeperState.CLOSED:
                self._listener.closed()
            case _:
                pass


class _SocketLoop(ConnectionHandler):  # type: ignore[misc]  # kazoo is untyped
    """kazoo's loop over one socket, extended by bulk replies, watches and logins."""

    _connection_routine: threading.Thread | None

    def __init__(
        self, client: ZooKeeperConnection, retry: KazooRetry, listener: Listener, login: str | None
    ) -> None:
        """``login``: ``user:password`` for SASL; None: no login."""
        super().__init__(client, retry, logger=_log, sasl_options=None if login is None else {})
        self._login = login
        self._listener = listener
        self._thread_id = 0
        self._being_sent: PendingRequest | None = None
        self._suspects: dict[int, Ask] = {}
        """The requests in flight when connections were lost, by ``id``, until each is answered."""
        self._one_at_a_time = 0
        """The number of next requests of which each is sent only when no other is in flight."""
        self.last_error = ""
        self._server = ""
        self._read_timeout_ms = 0.0
        self._answered_at = 0.0

    def start(self) -> None:
        # kazoo clears this event only in the new thread; a stop before that would not wait for it.
        self.connection_stopped.clear()
        super().start()

    def zk_loop(self) -> None:
        self._thread_id = threading.get_ident()
        super().zk_loop()

    def stop(self, timeout: float | None = None) -> bool:
        # kazoo joins without bound; a thread that is still connecting is left to end by itself.
        stopped = bool(self.connection_stopped.wait(timeout))
        if stopped and self._connection_routine is not None:
            self._connection_routine.join(timeout)
            self._connection_routine = None
        return stopped

    def is_own_thread(self) -> bool:
        """Whether the caller is this loop."""
        return threading.get_ident() == self._thread_id

    def wake(self) -> None:
        """Wakes the loop to look at its queue."""
        with contextlib.suppress(OSError, AttributeError):  # closed meanwhile
            self._write_sock.send(b"\0")

    def cut(self) -> None:
        """Closes the socket without notice, as a broken network would."""
        with contextlib.suppress(OSError, AttributeError):  # none, or gone meanwhile
            self._socket.shutdown(socket.SHUT_RDWR)

    def _expand_client_hosts(self) -> list[tuple[str, str, int]]:
        found: list[tuple[str, str, int]] = super()._expand_client_hosts()
        if not found:
            self.last_error = "none of the host names can be resolved"
        return found

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        # Read last_zxid before connecting, because the replies to authentication raise it.
        seen_zxid = self.client.last_zxid
        try:
            with _nonsense_drops_the_connection():
                read_timeout, connect_timeout = super()._connect(host, hostip, port)
                self._arm_watches_again(seen_zxid, connect_timeout / 1000)
            if self._has_decrypted():
                # TLS has already read bytes behind the last reply from the socket, so the selector
                # would not report them.
                self._read_socket(read_timeout / 1000)
        except (ConnectionDropped, KazooTimeoutError) as error:
            self.last_error = f"{host}:{port}: {error}"
            raise
        except AuthFailedError as refused:
            if not self._server:
                raise
            # This server may be the only one that is set up wrongly, and not for ever.
            self.last_error = f"{host}:{port}: {refused}"
            self._listener.login_refused()
            raise ConnectionDropped(self.last_error) from refused
        self._note_session(socket_address_text(host, port, hostip), read_timeout)
        return read_timeout, connect_timeout

    def _note_session(self, server: str, read_timeout_ms: float) -> None:
        """Logs the new connection with the negotiated session timeout, as Kafka's client does."""
        self._server, self._read_timeout_ms = server, read_timeout_ms
        self._answered_at = time.monotonic()
        _log.info(
            "Session establishment complete on server %s, session id = %s, negotiated timeout = %d",
            server,
            self._session(),
            # kazoo keeps only its read timeout, two thirds of the session timeout.
            round(read_timeout_ms * 3 / 2),
        )

    def _log_drop(self) -> None:
        """Logs, as Kafka's client does, whether the server was silent or closed the connection."""
        silent_ms = (time.monotonic() - self._answered_at) * 1000
        if silent_ms > self._read_timeout_ms / 2:  # a ping was sent by then, without a reply
            _log.warning(
                "Client session timed out, have not heard from server in %dms for session id %s",
                silent_ms,
                self._session(),
            )
        else:
            _log.warning(
                "Session %s for server %s, Closing socket connection. "
                "Attempting reconnect except it is a SessionExpiredException.",
                self._session(),
                self._server,
            )

    def _session(self) -> str:
        """The session's id as Java prints it, in hexadecimal."""
        return f"{self.client._session_id & 0xFFFF_FFFF_FFFF_FFFF:#x}"

    def _authenticate_with_sasl(self, _host: str, timeout_s: float) -> None:
        """Logs in; called by kazoo.  kazoo's own method takes a lost connection for a refusal."""
        assert self._login is not None
        username, _, password = self._login.partition(":")
        login = DigestMd5Login(username, password, secrets.token_urlsafe(24))
        token = login.first()
        try:
            for xid in range(1, MAX_LOGIN_ROUNDS + 1):
                token = login.step(self._login_round(xid, token, timeout_s))
                if login.is_complete:
                    return
        except SaslRefused as refused:
            raise AuthFailedError(str(refused)) from refused
        raise ConnectionDropped("the login came to no end")

    def _login_round(self, xid: int, token: bytes, timeout_s: float) -> bytes:
        self._submit(SASL(token), timeout_s, xid)
        header, frame, offset = self._read_header(timeout_s)
        if header.err in _LOGIN_REFUSED:
            raise AuthFailedError(f"the login was answered with error {header.err}")
        if header.xid != xid or header.err:
            raise ConnectionDropped(f"xid {header.xid}, error {header.err} instead of a challenge")
        challenge, _ = SASL.deserialize(frame, offset)
        return challenge or b""

    def _arm_watches_again(self, seen_zxid: int, timeout_s: float) -> None:
        """Sets the watches again: changes after ``seen_zxid`` fire at once."""
        for ask in requests_to_arm_again(self._listener.watches, seen_zxid):
            self._submit(ask, timeout_s, SET_WATCHES_XID)
            while True:
                # Notifications of changes since ``seen_zxid`` come before the reply.
                header, frame, offset = self._read_header(timeout_s)
                if header.xid == WATCH_XID:
                    self._read_watch_event(frame, offset)
                elif header.xid == SET_WATCHES_XID:
                    break
                elif header.xid != PING_XID:
                    raise ConnectionDropped(f"xid {header.xid} instead of setWatches' answer")
            if header.err:
                raise ConnectionDropped(f"setWatches was answered with error {header.err}")

    def _read_header(self, timeout: float) -> tuple[ReplyHeader, bytes, int]:
        (length,) = struct.unpack("!i", self._read(4, timeout))
        if not REPLY_HEADER_BYTES <= length <= MAX_FRAME_BYTES:
            raise ConnectionDropped(f"a frame of {length} bytes is no answer of ZooKeeper")
        frame = self._read(length, timeout)
        header, offset = ReplyHeader.deserialize(frame, 0)
        return header, frame, offset

    def _read_socket(self, read_timeout: float) -> Any:
        with _nonsense_drops_the_connection():
            while True:
                response = super()._read_socket(read_timeout)
                self._answered_at = time.monotonic()
                # The selector does not report bytes that TLS has read from the socket already.
                if response == CLOSE_RESPONSE or not self._has_decrypted():
                    return response

    def _has_decrypted(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        self._listener.fired(*decode_watch(buffer, offset))

    def _read_response(self, header: ReplyHeader, buffer: bytes, offset: int) -> Any:
        pending = self.client._pending[0][1]
        if not isinstance(pending, PendingRequest):
            return super()._read_response(header, buffer, offset)
        _, _, xid = self.client._pending.popleft()
        if header.xid != xid:
            dropped = ConnectionDropped(f"answer to xid {header.xid}, {xid} was next")
            pending.set_exception(dropped)
            raise dropped
        if header.err == LOGIN_REQUIRED:
            refused = AuthFailedError("it requires a login by SASL")
            pending.set_exception(refused)
            raise refused
        if header.zxid > 0:
            self.client.last_zxid = header.zxid
        self._suspects.pop(id(pending.ask), None)
        pending.complete(Reply(header.zxid, code_of(header.err), buffer, offset))
        return None

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        queue = self.client._queue
        pending = queue[0][1] if queue else None
        if isinstance(pending, PendingRequest) and pending.generation != self._listener.generation:
            # The request began in an earlier session and must not be sent in this one.
            queue.popleft()
            self._read_sock.recv(1)
            pending.fail(SessionExpired("the session in which this request began is over"))
            return
        self._being_sent = pending if isinstance(pending, PendingRequest) else None
        super()._send_request(read_timeout, connect_timeout)
        self._being_sent = None
        if self._one_at_a_time:
            while self.client._pending:
                self._read_socket(read_timeout)
            # Once every suspect is answered, none of them was the cause.
            self._one_at_a_time = self._one_at_a_time - 1 if self._suspects else 0
            if not self._one_at_a_time:
                self._suspects.clear()  # the others are not sent again

    def note_drop(self) -> None:
        """Logs the lost connection, and looks for the request that may have caused the loss.

        The callers send all requests again.  On the next connection each is sent alone: if that
        connection is lost, too, the request in flight is the cause.
        """
        self._log_drop()
        under_way = [each for _, each, _ in self.client._pending]
        if self._being_sent is not None:
            under_way.append(self._being_sent)
            self._being_sent = None
        suspects = [each for each in under_way if isinstance(each, PendingRequest)]
        if len(under_way) == len(suspects) == 1:
            suspects[0].was_alone = True
            self._suspects.clear()
        self._suspects |= {id(each.ask): each.ask for each in suspects}
        self._one_at_a_time = len(under_way) + len(self.client._queue) + CAUTIOUS_REQUESTS


@contextlib.contextmanager
def _nonsense_drops_the_connection() -> Iterator[None]:
    """Turns an invalid reply into a lost connection, which the client survives."""
    try:
        yield
    except (AuthFailedError, SessionExpiredError, ConnectionDropped):
        raise
    except (struct.error, ValueError, IndexError, KeyError, RuntimeError, KazooException) as error:
        raise ConnectionDropped(f"an answer that makes no sense: {error!r}") from error
