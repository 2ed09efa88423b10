"""ZooKeeper refuses one part of one question of a broker, with every code it could give.

Each task below is done once undisturbed; that counts the parts of its questions and says what comes
out.  Then it is done again for each part and code.  Only two results are right: ZooKeeperRefused,
or the undisturbed result.  Anything else took a refusal for an answer, such as "there are no ACLs".
After a refusal, a task that can be repeated is repeated: then the undisturbed result must come out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.errors import ZooKeeperRefused
from kafka_common.model import Broker, Endpoint, ReplicaAssignment, TopicPartition
from kafka_common.protocol.delegation_tokens import DelegationTokenConfig
from kafka_common.protocol.inter_broker_versions import version_of
from replica_manager.broker.dynamic_config import DynamicConfig
from replica_manager.broker.feature_epoch import FeatureEpoch
from replica_manager.broker.refresher import Refresher
from replica_manager.broker.registration import (
    ZooKeeperRegistration,
    check_endpoints,
    cluster_id,
    generate_broker_id,
)
from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators.group_settings import partition_count
from replica_manager.coordinators.transaction_settings import is_topic_deleted
from replica_manager.replication.isr_znodes import _write
from replica_manager.security.acl_cache import AclBinding, AclBindingFilter, AclCache
from replica_manager.security.acl_store import AclStore
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.delegation_token_store import DelegationTokenStore
from replica_manager.security.delegation_tokens import DelegationTokens
from replica_manager.server.configs import entity_configs
from replica_manager.server.producer_ids import ProducerIdsFromZooKeeper
from replica_manager.server.quota_filters import QuotaFilter
from replica_manager.server.topics.partition_creation import NewPartitions
from replica_manager.server.topics.topic_admin import TopicAdmin
from replica_manager.server.zookeeper_admin import ZooKeeperAdmin
from tests.support.broker_world import BrokersSession
from zkcontroller.zookeeper.requests import Create, ZkCode, ZkRequest
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    PERSISTENT_PATHS,
    BrokerIdZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerZnode,
    FeatureStatus,
    FeatureZnode,
    PartitionStateZnode,
    TopicZnode,
)
from zkcontroller_simulation.refusals import perform_in_part
from zkcontroller_simulation.zookeeper import SimulatedZooKeeper

ORDERS: Final = ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL)
LEDGERS: Final = ResourcePattern(ResourceType.TOPIC, "ledger-", PatternType.PREFIXED)
READ: Final = AccessControlEntry("User:alice", "*", AclOperation.READ, PermissionType.ALLOW)
WRITE: Final = AccessControlEntry("User:alice", "*", AclOperation.WRITE, PermissionType.ALLOW)
CONFIG: Final = BrokerConfig.parse({"zookeeper.connect": "memory:1"})


class RefusingSession(BrokersSession):
    """Refuses part number ``refused_part`` of what is asked, counted from 0, with ``code``."""

    def __init__(self, zookeeper: SimulatedZooKeeper) -> None:
        super().__init__(zookeeper)
        self.parts: list[Sequence[ZkCode]] = []
        """With what each part that was asked can be refused."""
        self.refused_part = -1
        self.code: ZkCode | None = None
        self.refused: list[str] = []

    def refuse(self, part: int, code: ZkCode | None) -> None:
        self.parts, self.refused_part, self.code = [], part, code

    def obey(self) -> None:
        self.refuse(-1, None)

    @override
    def perform(self, request: ZkRequest, session_id: int | None = None) -> Any:
        return perform_in_part(request, self._refusal, super().perform)

    @override
    def create_missing(self, paths: Iterable[str]) -> None:
        for path in paths:
            parts = path.split("/")[1:]
            for depth in range(1, len(parts) + 1):
                parent = "/" + "/".join(parts[:depth])
                created = self.write(Create(parent))
                if isinstance(created, ZkCode) and created is not ZkCode.NODE_EXISTS:
                    raise ZooKeeperRefused(parent, created.name)

    def _refusal(self, path: str, codes: Sequence[ZkCode]) -> ZkCode | None:
        self.parts.append(codes)
        if len(self.parts) - 1 != self.refused_part:
            return None
        self.refused.append(path)
        return self.code


class World:
    """A ZooKeeper in memory with a small cluster in it, and the session of broker 1."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.zookeeper = SimulatedZooKeeper()
        self.other = self._session(BrokersSession(self.zookeeper))
        self.refusing = RefusingSession(self.zookeeper)
        self.refusing.start()
        self.session = cast(ZooKeeperSession, self.refusing)
        self.executor = executor
        self.other.create_missing(PERSISTENT_PATHS)
        self.create(ControllerZnode.PATH, ControllerZnode(1, 0).encode())
        self.create(FeatureZnode.PATH, FeatureZnode({}, FeatureStatus.ENABLED).encode())
        for broker_id in (1, 2):
            self.create(BrokerIdZnode.path(broker_id), BrokerIdZnode(broker(broker_id), 0).encode())
        topic = TopicZnode(UUID(int=1), {0: ReplicaAssignment((1, 2))})
        self.create(TopicZnode.path("orders"), topic.encode())
        self.create(
            PartitionStateZnode.path("orders", 0), PartitionStateZnode(1, 0, (1, 2), 1).encode()
        )
        for entity in (
            "topics/orders",
            "users/alice",
            "users/alice/clients/app",
            "clients/app",
            "ips/10.0.0.1",
            "brokers/1",
        ):
            key = "max.connections" if entity == "brokers/1" else "producer_byte_rate"
            key = "retention.ms" if entity == "topics/orders" else key
            key = "connection_creation_rate" if entity.startswith("ips/") else key
            self.create(ConfigZnode.path(entity), ConfigZnode({key: "1000"}).encode())
        change = ConfigChangeZnode("topics/orders")
        self.other.write(Create(change.CREATE_PATH, change.encode(), sequential=True))

    @staticmethod
    def _session(session: BrokersSession) -> ZooKeeperSession:
        session.start()
        return cast(ZooKeeperSession, session)

    def create(self, path: str, data: bytes) -> None:
        self.other.create_missing([path.rpartition("/")[0]])
        self.other.write(Create(path, data))

    def run(self, steps: Any) -> Any:
        return asyncio.run(steps)

    def znodes(self, root: str = "") -> dict[str, bytes | None]:
        """Every znode below ``root``."""
        found: dict[str, bytes | None] = {}
        for name in self.zookeeper.peek_children(root or "/"):
            path = f"{root}/{name}"
            znode = self.zookeeper.peek(path)
            if znode is not None:
                found[path] = znode.data
            found |= self.znodes(path)
        return found


def broker(broker_id: int) -> Broker:
    return Broker(broker_id, (Endpoint(f"host{broker_id}", 9092, "PLAINTEXT", "PLAINTEXT"),))


Make = Callable[[World], Callable[[], Any]]
"""Prepares a task in a world; the task answers what came out of it."""


class Task(NamedTuple):
    make: Make
    can_repeat: bool = True
    is_error: Callable[[Any], bool] = lambda _: False
    """Whether a result says that something was refused."""


# Access control lists


def acl_store(world: World) -> tuple[AclStore, Authorizer]:
    authorizer = Authorizer(AclCache({}))
    return AclStore(world.session, authorizer, sleep=lambda _: None), authorizer


def other_acl_store(world: World) -> AclStore:
    store = AclStore(world.other, Authorizer(AclCache({})))
    store.load()
    return store


def rules(authorizer: Authorizer) -> dict[ResourcePattern, Any]:
    return {pattern: acls for pattern, acls in authorizer.cache.acls.items() if acls.entries}


def load_acls(world: World) -> Callable[[], Any]:
    other_acl_store(world).create([AclBinding(ORDERS, READ), AclBinding(LEDGERS, WRITE)])
    store, authorizer = acl_store(world)

    def task() -> Any:
        store.load()
        return rules(authorizer)

    return task


def follow_acls(world: World) -> Callable[[], Any]:
    store, authorizer = acl_store(world)
    store.load()
    other_acl_store(world).create([AclBinding(ORDERS, READ), AclBinding(LEDGERS, WRITE)])

    def task() -> Any:
        store.process_changes()
        return rules(authorizer)

    return task


def create_acl(world: World) -> Callable[[], Any]:
    store, _ = acl_store(world)
    store.load()
    return lambda: (store.create([AclBinding(ORDERS, READ)]), world.znodes("/kafka-acl"))


def delete_acls(world: World) -> Callable[[], Any]:
    other_acl_store(world).create([AclBinding(ORDERS, READ)])
    store, _ = acl_store(world)
    store.load()
    of_alice = AclBindingFilter(
        ResourceType.ANY, None, PatternType.ANY, "User:alice", None, AclOperation.ANY,
        PermissionType.ANY,
    )  # fmt: skip
    return lambda: (store.delete([of_alice]), world.znodes("/kafka-acl"))


# Dynamic configuration


class Followed:
    """What a DynamicConfig has passed on."""

    def __init__(self, world: World) -> None:
        self.found: dict[str, Any] = {}
        self.dynamic = DynamicConfig(
            world.session,
            1,
            CONFIG,
            prepare=lambda *_: None,
            on_broker_config=lambda *_: None,
            on_topic=lambda name, config: self.found.update({name: dict(config)}),
            on_unclean_topic=lambda _: None,
            on_client=lambda path, config: self.found.update({path: dict(config)}),
        )

    def after(self, step: Callable[[], None]) -> Any:
        step()
        return self.found, self.dynamic.current.values, self.dynamic.current.effective


def load_dynamic(world: World) -> Callable[[], Any]:
    followed = Followed(world)
    return lambda: followed.after(followed.dynamic.load)


def load_topics(world: World) -> Callable[[], Any]:
    followed = Followed(world)
    return lambda: followed.after(followed.dynamic.load_topics)


def load_clients(world: World) -> Callable[[], Any]:
    followed = Followed(world)
    return lambda: followed.after(followed.dynamic.load_clients)


def follow_config(world: World) -> Callable[[], Any]:
    followed = Followed(world)
    return lambda: followed.after(followed.dynamic.process_changes)


# Delegation tokens


def token_store(session: ZooKeeperSession, tokens: DelegationTokens) -> DelegationTokenStore:
    return DelegationTokenStore(
        session,
        tokens,
        DelegationTokenConfig("secret"),
        now_ms=lambda: 1_000,
        new_uuid=partial(UUID, int=7),
        broker_id=1,
    )


def load_tokens(world: World) -> Callable[[], Any]:
    other = token_store(world.other, DelegationTokens(lambda: 1_000))
    other.load()
    other.create("User:alice", "User:alice", [], -1)
    tokens = DelegationTokens(lambda: 1_000)
    store = token_store(world.session, tokens)

    def task() -> Any:
        store.load()
        return tokens.known

    return task


def follow_tokens(world: World) -> Callable[[], Any]:
    tokens = DelegationTokens(lambda: 1_000)
    store = token_store(world.session, tokens)
    store.load()
    other = token_store(world.other, DelegationTokens(lambda: 1_000))
    other.load()
    other.create("User:alice", "User:alice", [], -1)

    def task() -> Any:
        store.process_changes()
        return tokens.known

    return task


# Configurations and quotas, read and written for clients


def read_config(world: World) -> Callable[[], Any]:
    return lambda: entity_configs.read_entity_config(world.session, "topics/orders")


def read_configs(world: World) -> Callable[[], Any]:
    return lambda: entity_configs.read_entity_configs(world.session, "users")


def write_config(world: World) -> Callable[[], Any]:
    def task() -> Any:
        entity_configs.write_entity_config(world.session, "clients/new", {"a": "1"})
        return world.znodes("/config")

    return task


def delete_config(world: World) -> Callable[[], Any]:
    # The user itself has a configuration, so it stays.
    return lambda: (
        entity_configs.delete_empty_entity(world.session, "users/alice/clients/app"),
        world.znodes("/config/users"),
    )


def find_quotas(world: World) -> Callable[[], Any]:
    return lambda: QuotaFilter((), is_strict=False).find(world.session)


def list_brokers(world: World) -> Callable[[], Any]:
    admin = ZooKeeperAdmin(world.session, world.executor)
    return lambda: world.run(admin.brokers())


def is_topic(world: World) -> Callable[[], Any]:
    admin = ZooKeeperAdmin(world.session, world.executor)
    return lambda: world.run(admin.is_topic("orders"))


def create_partitions(world: World) -> Callable[[], Any]:
    admin = ZooKeeperAdmin(world.session, world.executor)
    wanted = NewPartitions("orders", 2, ((1, 2),))
    both = {1: broker(1), 2: broker(2)}
    return lambda: (
        world.run(admin.create_partitions(wanted, both, lambda _: None)),
        world.znodes("/brokers/topics"),
    )


def change_config(world: World) -> Callable[[], Any]:
    admin = ZooKeeperAdmin(world.session, world.executor)

    def task() -> Any:
        world.run(admin.change_config("topics/orders", {"retention.ms": "5"}))
        return world.znodes("/config/topics")

    return task


def commit_old_offset(world: World) -> Callable[[], Any]:
    admin = ZooKeeperAdmin(world.session, world.executor)
    partition = TopicPartition("orders", 0)

    async def steps() -> Any:
        await admin.commit_old_offset("group", partition, 7)
        return await admin.old_offset_of("group", partition)

    return lambda: world.run(steps())


def delete_topic(world: World) -> Callable[[], Any]:
    admin = TopicAdmin(world.session, world.executor, lambda: CONFIG, Random(7))

    def task() -> Any:
        world.run(admin.delete("orders"))
        return world.znodes("/admin")

    return task


def count_partitions(world: World) -> Callable[[], Any]:
    return lambda: partition_count(world.session, "orders")


def look_for_deleted_topic(world: World) -> Callable[[], Any]:
    return lambda: is_topic_deleted(world.session, "orders")


# What a broker does when it starts


def read_cluster_id(world: World) -> Callable[[], Any]:
    world.create("/cluster/id", b'{"version":"1","id":"jNLCMymNQNG-aCA-mQ8ehw"}')
    return lambda: cluster_id(world.session)


def make_broker_id(world: World) -> Callable[[], Any]:
    return lambda: generate_broker_id(world.session, 1000)


def check_addresses(world: World) -> Callable[[], Any]:
    return lambda: check_endpoints(world.session, 3, broker(3).endpoints)


def register(world: World) -> Callable[[], Any]:
    registration = ZooKeeperRegistration(world.session, broker(3), 5, 0, sleep=lambda _: None)

    def task() -> Any:
        registration.register()
        registration.update()
        return sorted(world.znodes("/brokers/ids"))

    return task


def read_features(world: World) -> Callable[[], Any]:
    features = FeatureEpoch(world.session, 1, version_of("3.9-IV0"))

    def task() -> Any:
        features.look()
        return features.epoch

    return task


def take_producer_ids(world: World) -> Callable[[], Any]:
    ids = ProducerIdsFromZooKeeper(world.session, world.executor, 1)
    return lambda: world.run(ids.next_id())


def write_isr(world: World) -> Callable[[], Any]:
    tp = TopicPartition("orders", 0)
    state = PartitionStateZnode(1, 0, (1,), 1)
    return lambda: _write(world.session, {tp: (state, 0)})


TASKS: Final = {
    make.__name__: task if isinstance(task, Task) else Task(make)
    for make, task in (
        (load_acls, None),
        (follow_acls, None),
        (
            create_acl,
            Task(create_acl, is_error=lambda result: result[0] != [ErrorCode.none]),
        ),
        (
            delete_acls,
            Task(
                delete_acls,
                is_error=lambda result: result[0][0][0][1] is not ErrorCode.none,
                # The rule is gone, and what a second deletion removes is nothing.
                can_repeat=False,
            ),
        ),
        (load_dynamic, None),
        (load_topics, None),
        (load_clients, None),
        (follow_config, None),
        (load_tokens, None),
        (follow_tokens, None),
        (read_config, None),
        (read_configs, None),
        (write_config, None),
        # A second deletion does not know that the empty parent is there because of the first.
        (delete_config, Task(delete_config, can_repeat=False)),
        (find_quotas, None),
        (list_brokers, None),
        (is_topic, None),
        # Its partitions may have been written, so a second attempt asks for what is there.
        (create_partitions, Task(create_partitions, can_repeat=False)),
        (change_config, None),
        (commit_old_offset, None),
        (delete_topic, None),
        (count_partitions, None),
        (look_for_deleted_topic, None),
        (read_cluster_id, None),
        (make_broker_id, None),
        (check_addresses, None),
        # What was registered before the refusal stands there: a broker that cannot start ends.
        (register, Task(register, can_repeat=False)),
        (read_features, None),
        (take_producer_ids, None),
        # A partition without an answer is proposed again.
        (write_isr, Task(write_isr, is_error=lambda result: result == {})),
    )
}


def outcome(task: Callable[[], Any]) -> Any:
    """What came out, or the refusal that the task ended with."""
    try:
        return task()
    except ZooKeeperRefused as refusal:
        return refusal


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize("name", TASKS)
def test_only_no_node_means_that_nothing_is_there(name: str, executor: ThreadPoolExecutor) -> None:
    make, can_repeat, is_error = TASKS[name]

    def prepared() -> tuple[World, Callable[[], Any]]:
        world = World(executor)
        task = make(world)
        world.refusing.obey()
        return world, task

    world, task = prepared()
    expected = task()
    parts = world.refusing.parts
    assert parts, "the task asks ZooKeeper nothing"

    refused = 0
    for part, codes in enumerate(parts):
        for code in codes:
            world, task = prepared()
            world.refusing.refuse(part, code)
            where = f"part {part} refused with {code.name}: {world.refusing.refused}"
            result = outcome(task)
            if isinstance(result, ZooKeeperRefused):
                refused += 1
            else:
                assert result == expected or is_error(result), where
            if can_repeat and (isinstance(result, ZooKeeperRefused) or is_error(result)):
                world.refusing.obey()
                assert task() == expected, f"again, after {where}"
    # Where refusals become error codes, none is raised.
    assert refused or name in ("create_acl", "delete_acls", "write_isr")


async def test_what_was_refused_is_read_again_after_a_pause() -> None:
    reads = 0

    def look() -> None:
        nonlocal reads
        reads += 1
        if reads < 3:
            raise ZooKeeperRefused("/config/changes", "THROTTLED_OP")

    with ThreadPoolExecutor(1) as pool:
        loop = asyncio.get_running_loop()
        refresher = Refresher("a test", look, loop, pool, retry_pause_s=0.001)
        refresher.start()
        async with asyncio.timeout(30):
            while reads < 3:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        await refresher.stop()

    # Nothing is read again once an answer has come.
    assert reads == 3


class RepeatingSession(BrokersSession):
    """Each write is made twice, as if the reply to the first had been lost with its connection."""

    @override
    def write(self, operation: Any) -> Any:
        super().write(operation)
        return super().write(operation)


def test_a_configuration_whose_creation_was_answered_late_is_created(
    executor: ThreadPoolExecutor,
) -> None:
    world = World(executor)
    session = RepeatingSession(world.zookeeper)
    session.start()

    entity_configs.write_entity_config(
        cast(ZooKeeperSession, session), "clients/new", {"producer_byte_rate": "7"}
    )

    found = world.znodes("/config")[ConfigZnode.path("clients/new")]
    assert found == ConfigZnode({"producer_byte_rate": "7"}).encode()


def test_partitions_whose_creation_was_answered_late_are_created(
    executor: ThreadPoolExecutor,
) -> None:
    world = World(executor)
    session = RepeatingSession(world.zookeeper)
    session.start()
    admin = ZooKeeperAdmin(cast(ZooKeeperSession, session), executor)
    wanted = NewPartitions("orders", 3)
    brokers = {broker_id: broker(broker_id) for broker_id in (1, 2)}

    added = world.run(admin.create_partitions(wanted, brokers, lambda _: None))

    assert sorted(added) == [0, 1, 2]
    data = world.znodes("/brokers/topics")[TopicZnode.path("orders")]
    assert data is not None
    assert sorted(TopicZnode.decode("orders", data).partitions) == [0, 1, 2]
