"""A node of a quorum whose clients log in, and whose authorizer asks the metadata log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kio.static.protocol import RequestPayload
from typing_extensions import override

from kafka_common.net.client_security import ClientSecurity, Credentials
from kafka_common.net.connection import Connection
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema
from kraft.controller.quorum_controller import QuorumController
from kraft.node.controller_config import ControllerServerConfig
from kraft.node.controller_service import controller_maker, read_bootstrap
from kraft.node.described_config import described_config
from kraft.node.metadata_publishing import LISTENER_NAME, MetadataPublishing
from kraft.node.node_security import NodeSecurity, node_security
from kraft.node.quorum_node import QuorumNode, QuorumNodeSettings
from kraft.node.quota_publisher import MutationQuotaPublisher, mutation_quotas
from replica_manager.quotas.mutation_quotas import MutationQuotas
from replica_manager.security.principals import Principal
from tests.support.envelopes import principal_bytes
from tests.support.frames import parse_response_header, request_header
from tests.support.quorum import CLUSTER_ID, Quorum, eventually, in_the_end

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PASSWORDS: Final = {user: f"{user}-secret-0451" for user in ("controller", "admin", "alice")}
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_USERS: Final = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
_KEYS: Final = "listener.name.controller."
SASL: Final[Mapping[str, str]] = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.controller.protocol": "PLAIN",
    f"{_KEYS}plain.sasl.jaas.config": (
        f'{_PLAIN} username="controller" password="{PASSWORDS["controller"]}" {_USERS};'
    ),
    f"{_KEYS}scram-sha-256.sasl.jaas.config": f"{_SCRAM};",
    "connection.failed.authentication.delay.ms": "10",
}
AUTHORIZED: Final[Mapping[str, str]] = {
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
    **SASL,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:controller; User:admin",
}


class SecuredQuorum(Quorum):
    """One whose nodes are secured as a file of properties says."""

    def __init__(
        self, directory: Path, properties: Mapping[str, str], voter_ids: Sequence[int] = (1,)
    ) -> None:
        super().__init__(directory, voter_ids)
        self.properties = properties
        self.own: dict[int, Mapping[str, str]] = {}
        """What a node has otherwise than all."""
        self.mutations: dict[int, MutationQuotas] = {}
        self.security: dict[int, NodeSecurity] = {}

    def config(self, node_id: int) -> ControllerServerConfig:
        """Of a node, as its file would give it."""
        voters = self.voters.endpoints
        return ControllerServerConfig.parse(
            {
                "process.roles": "controller",
                "node.id": str(node_id),
                "controller.quorum.voters": ",".join(
                    f"{voter}@{at.host}:{at.port}" for voter, at in voters.items()
                ),
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://127.0.0.1:{voters[node_id].port}",
                "log.dirs": str(self.directory / f"node-{node_id}"),
                # Followers know everything as committed only while nothing is written.
                "metadata.max.idle.interval.ms": "0",
                **self.properties,
                **self.own.get(node_id, {}),
            }
        )

    @override
    def settings(self, node_id: int) -> QuorumNodeSettings:
        config = self.config(node_id)
        security = self.security[node_id] = node_security(config)
        return replace(
            super().settings(node_id),
            listeners=config.listeners,
            authenticators=security.authenticators,
            security=security.client,
            authorizer=security.authorizer,
            config=described_config(config),
            mutations=self.mutations.setdefault(node_id, mutation_quotas(config)),
        )

    @override
    def equip(self, node: QuorumNode, settings: QuorumNodeSettings) -> None:
        node_id = settings.local.id
        bootstrap = read_bootstrap(settings.metadata_log_dir, None)
        node.set_controller(controller_maker(self.config(node_id), CLUSTER_ID, bootstrap))
        quotas = MutationQuotaPublisher(self.mutations[node_id])
        publishers = (*self.security[node_id].publishers, quotas)
        node.add_listener(LISTENER_NAME, MetadataPublishing(1, lambda: node.driver, publishers))


class Client:
    """A connection to a node, of someone who has logged in."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(self, request: RequestPayload) -> Any:
        return await self._connection.request(request)

    async def call(self, api_key: int, version: int, body: bytes) -> bytes:
        return await self._connection.call(api_key, version, (body,))

    async def forward(self, user: str, request: RequestPayload, host: bytes = b"\x7f\0\0\1") -> Any:
        """The answer to someone else's request in an Envelope, or the envelope's error."""
        api_key, version = int(request.__api_key__), int(request.__version__)
        envelope: Any = await self._connection.request(
            request_schema(ApiKey.ENVELOPE, 0).request(
                request_data=request_header(api_key, version, 7, user) + write(request),
                request_principal=principal_bytes(Principal("User", user)),
                client_host_address=host,
            )
        )
        if envelope.response_data is None:
            return envelope
        _, start = parse_response_header(api_key, version, envelope.response_data)
        return read_response(api_key, version, envelope.response_data, start)


class SecuredNode:
    """The only voter of a quorum, with its controller active and its rules loaded."""

    def __init__(self, quorum: SecuredQuorum) -> None:
        self.quorum = quorum

    @property
    def port(self) -> int:
        return self.quorum.voters.endpoints[1].port

    @asynccontextmanager
    async def client(
        self, user: str, password: str | None = None, mechanism: str = "PLAIN"
    ) -> AsyncIterator[Client]:
        """Someone logs in; ConnectionError if they may not."""
        credentials = Credentials(mechanism, user, password or PASSWORDS[user])
        connection = await Connection.open(
            "127.0.0.1",
            self.port,
            client_id=user,
            security=ClientSecurity(credentials=credentials),
        )
        try:
            yield Client(connection)
        finally:
            await connection.close()


def _is_active(controller: QuorumController) -> bool:
    return controller.is_active


@asynccontextmanager
async def secured_node(
    directory: Path, properties: Mapping[str, str] = AUTHORIZED
) -> AsyncIterator[SecuredNode]:
    """A node that is active and has read its rules."""
    quorum = SecuredQuorum(directory, properties)
    try:
        await quorum.start(1)
        await quorum.leader()
        authorizer = quorum.security[1].authorizer
        if authorizer is not None:
            await eventually(lambda: authorizer.is_loaded, "the rules are there")
        controller = quorum.nodes[1].controller
        await in_the_end(lambda: controller.look(_is_active), "the controller is active")
        yield SecuredNode(quorum)
    finally:
        await quorum.close()
