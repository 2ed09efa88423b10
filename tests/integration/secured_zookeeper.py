"""A ZooKeeper that listens under TLS too, and knows users by SASL and by their certificates."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.x509.oid import NameOID

from kafka_common.net.loopback_ports import free_port
from tests.support.certificates import Authority, Identity
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

USERS: Final = {"alice": "alice-secret", "bob": "bob-secret", "kafka": "kafka-secret"}
STORE_PASSWORD: Final = "storepass"
GATHERED_S: Final = 0.1
SASL_PROPERTIES: Final = {
    "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
}
NETTY_SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"


@dataclass(frozen=True)
class SecuredZooKeeper:
    """Where it is, and the files to come in by."""

    directory: Path
    plain: str
    secure: str

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def trusting(self, **others: str) -> dict[str, str]:
        """Keys of a client that trusts it; ``__`` for a dot."""
        return {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": NETTY_SOCKET,
            "zookeeper.ssl.truststore.location": self.path("trusted.pem"),
            **{key.replace("__", "."): value for key, value in others.items()},
        }

    def certified(self) -> dict[str, str]:
        """Keys of a client that also shows who it is."""
        return self.trusting(
            zookeeper__ssl__keystore__location=self.path("kafka.p12"),
            zookeeper__ssl__keystore__password=STORE_PASSWORD,
        )


def identities(directory: Path) -> tuple[Identity, Identity]:
    """Those of the server and of kafka, written beside the authority that is trusted."""
    authority = Authority()
    server = authority.sign((NameOID.COMMON_NAME, "zookeeper"), hosts=True)
    kafka = authority.sign((NameOID.COMMON_NAME, "kafka"))
    (directory / "trusted.pem").write_text(authority.identity.certificate_pem)
    (directory / "other.pem").write_text(Authority("Another").identity.certificate_pem)
    server.write(directory, "server")
    (directory / "server.p12").write_bytes(server.pkcs12(STORE_PASSWORD, authority.identity))
    (directory / "kafka.p12").write_bytes(kafka.pkcs12(STORE_PASSWORD, authority.identity))
    (directory / "kafka.pem").write_text(kafka.key_pem(STORE_PASSWORD) + kafka.certificate_pem)
    return server, kafka


class GatheringDoor:
    """TLS before a ZooKeeper without: what that answers within a moment goes out in one record.

    That is what a busy server does, and only then: here it is certain.
    """

    def __init__(self, server: SecuredZooKeeper) -> None:
        host, _, port = server.plain.rpartition(":")
        self._server = (host, int(port))
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(server.path("server.pem"))
        self.on_answer: Callable[[int], object] = lambda _: None
        """Called with the number, from 1 on, of the answer that is about to be gathered."""
        self._passing: socket.socket | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.connect = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def drop(self) -> None:
        """Breaks the connection."""
        assert self._passing is not None
        self._passing.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                with (
                    self._tls.wrap_socket(accepted, server_side=True) as client,
                    socket.create_connection(self._server) as server,
                ):
                    self._pass_on(client, server)

    def _pass_on(self, client: ssl.SSLSocket, server: socket.socket) -> None:
        client.setblocking(False)
        self._passing = server
        responses = 0
        while True:
            ready, _, _ = select.select([client, server], [], [])
            if client in ready:
                try:
                    data = client.recv(65536)
                except ssl.SSLWantReadError:
                    continue
                if not data:
                    return
                server.sendall(data)
            if server in ready:
                responses += 1
                self.on_answer(responses)
                time.sleep(GATHERED_S)
                data = server.recv(16384)  # a record holds no more
                if not data:
                    return
                client.sendall(data)


def jaas_flags(directory: Path, known: Mapping[str, str] = USERS) -> tuple[str, ...]:
    """The JVM's flags by which a server knows the users."""
    users = "\n".join(f'    user_{name}="{password}"' for name, password in known.items())
    jaas = directory / "jaas.conf"
    jaas.write_text(
        "Server {\n"
        f"    org.apache.zookeeper.server.auth.DigestLoginModule required\n{users};\n"
        "};\n"
    )
    return (f"-Djava.security.auth.login.config={jaas}",)


@contextmanager
def secured_zookeeper(directory: Path) -> Iterator[SecuredZooKeeper]:
    """Runs one."""
    identities(directory)
    secure_port = free_port()
    server = EmbeddedZooKeeper(
        directory / "zookeeper",
        jvm_flags=jaas_flags(directory),
        properties={
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPort": str(secure_port),
            "secureClientPortAddress": "0.0.0.0",  # 127.0.0.2 reaches it, and is not its name
            "ssl.keyStore.location": str(directory / "server.p12"),
            "ssl.keyStore.password": STORE_PASSWORD,
            "ssl.trustStore.location": str(directory / "trusted.pem"),
            "ssl.clientAuth": "want",
            "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
            **SASL_PROPERTIES,
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        },
    )
    with server:
        yield SecuredZooKeeper(directory, server.connect, f"127.0.0.1:{secure_port}")
