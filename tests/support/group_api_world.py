"""A group coordinator behind its handlers."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.security.acl_cache import AclBinding, AclCache
from replica_manager.security.authorizer import Authorizer
from replica_manager.security.principals import Principal
from tests.support.broker_world import BrokerWorld, metadata

GROUP = "billing"


NONE = ErrorCode.none


SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"


MS = timedelta(milliseconds=1)


class GroupApiWorld(BrokerWorld):
    """A broker that coordinates every group, and those who ask it over the wire."""

    def __init__(self, executor: ThreadPoolExecutor, folder: Path, **properties: Any) -> None:
        super().__init__(
            executor,
            log_dirs=(folder,),
            offsets__topic__num__partitions="1",
            group__initial__rebalance__delay__ms="0",
            **properties,
        )

    async def begin(self) -> None:
        """The topic's one partition is led here, and there are two topics of others."""
        self.groups.start(1)
        self.lead(OFFSETS_TOPIC)
        self.update({"orders": {0: metadata(1), 1: metadata(1)}, "invoices": {0: metadata(1)}})
        async with asyncio.timeout(20):
            while (await self.tell("list_groups", 5, states_filter=(), types_filter=())).error_code:
                await asyncio.sleep(0)

    async def end(self) -> None:
        await self.groups.stop()
        self.logs.close()

    async def tell(self, api: str, version: int, /, **fields: Any) -> Any:
        """The answer; fields that the version lacks are left out."""
        module = import_module(f"kio.schema.{api}.v{version}.request")
        name = "".join(map(str.title, api.split("_"))) + "Request"
        return await self.ask(made(getattr(module, name), fields))

    def authorize(self) -> None:
        """From now on alice asks, who may do nothing yet."""
        self.guard_by(Authorizer(AclCache({})))
        self.principal = Principal("User", "alice")

    def permit(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        entries = [
            AccessControlEntry("User:alice", "*", each, PermissionType.ALLOW) for each in operations
        ]
        bindings = [AclBinding(ResourcePattern(kind, name), entry) for entry in entries]
        assert set(self.create_acls(bindings)) == {NONE}

    # What clients do.

    async def find(self, version: int, *keys: str, key_type: int = 0) -> Any:
        return await self.tell(
            "find_coordinator", version, key=keys[0], coordinator_keys=keys, key_type=key_type
        )

    async def join(self, version: int = 9, member_id: str = "", **fields: Any) -> Any:
        module = import_module(f"kio.schema.join_group.v{version}.request")
        given = {
            "group_id": GROUP, "member_id": member_id, "group_instance_id": None,
            "session_timeout": 30_000 * MS, "rebalance_timeout": 30_000 * MS,
            "protocol_type": "consumer", "reason": None,
            "protocols": (
                module.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),
            ),
        }  # fmt: skip
        response = await self.tell("join_group", version, **given | fields)
        if response.error_code is ErrorCode.member_id_required:
            return await self.join(version, response.member_id, **fields)
        return response

    async def sync(self, joined: Any, version: int = 5, **fields: Any) -> Any:
        module = import_module(f"kio.schema.sync_group.v{version}.request")
        given = {
            "group_id": GROUP, "generation_id": joined.generation_id,
            "member_id": joined.member_id, "group_instance_id": None,
            "protocol_type": "consumer", "protocol_name": "range",
            "assignments": (
                module.SyncGroupRequestAssignment(
                    member_id=joined.member_id, assignment=b"all of it"
                ),
            ),
        }  # fmt: skip
        return await self.tell("sync_group", version, **given | fields)

    async def heartbeat(self, joined: Any, version: int = 4) -> ErrorCode:
        response = await self.tell(
            "heartbeat", version, group_id=GROUP, generation_id=joined.generation_id,
            member_id=joined.member_id, group_instance_id=None,
        )  # fmt: skip
        code: ErrorCode = response.error_code
        return code

    async def leave(self, member_id: str, version: int = 5) -> Any:
        fields: dict[str, Any] = {"group_id": GROUP, "member_id": member_id}
        if version >= 3:
            module = import_module(f"kio.schema.leave_group.v{version}.request")
            identity = {"member_id": member_id, "group_instance_id": None, "reason": None}
            fields["members"] = (made(module.MemberIdentity, identity),)
        return await self.tell("leave_group", version, **fields)

    async def commit(
        self, offset: int, *topics: str, version: int = 9, partition: int = 0, metadata: str = "m"
    ) -> dict[str, ErrorCode]:
        """By topic; by a consumer that does not belong to a group."""
        module = import_module(f"kio.schema.offset_commit.v{version}.request")
        each = {
            "partition_index": partition, "committed_offset": offset,
            "committed_leader_epoch": -1, "commit_timestamp": -1, "committed_metadata": metadata,
        }  # fmt: skip
        response = await self.tell(
            "offset_commit", version, group_id=GROUP, generation_id_or_member_epoch=-1,
            member_id="", group_instance_id=None, retention_time=-1 * MS,
            topics=tuple(
                module.OffsetCommitRequestTopic(
                    name=topic, partitions=(made(module.OffsetCommitRequestPartition, each),)
                )
                for topic in topics
            ),
        )  # fmt: skip
        return {topic.name: topic.partitions[0].error_code for topic in response.topics}

    async def offsets(self, *topics: str, version: int = 9) -> Any:
        """The answer's group, or the answer itself where versions knew one group only."""
        module = import_module(f"kio.schema.offset_fetch.v{version}.request")
        plural = "s" if version >= 8 else ""
        wanted = tuple(
            getattr(module, f"OffsetFetchRequestTopic{plural}")(name=name, partition_indexes=(0,))
            for name in topics
        )
        fields: dict[str, Any] = {"group_id": GROUP, "topics": wanted or None}
        if version >= 8:
            group = {**fields, "member_id": None, "member_epoch": -1}
            fields = {"groups": (made(module.OffsetFetchRequestGroup, group),)}
        response = await self.tell("offset_fetch", version, **fields, require_stable=False)
        return response.groups[0] if version >= 8 else response

    async def delete_offset(self, *topics: str) -> Any:
        module = import_module("kio.schema.offset_delete.v0.request")
        part = module.OffsetDeleteRequestPartition(partition_index=0)
        return await self.tell(
            "offset_delete", 0, group_id=GROUP,
            topics=tuple(
                module.OffsetDeleteRequestTopic(name=name, partitions=(part,)) for name in topics
            ),
        )  # fmt: skip

    async def listed(self, version: int = 5) -> list[str]:
        response = await self.tell("list_groups", version, states_filter=(), types_filter=())
        assert response.error_code is NONE
        return [group.group_id for group in response.groups]

    async def described(self, *group_ids: str, version: int = 5, operations: bool = False) -> Any:
        response = await self.tell(
            "describe_groups", version, groups=group_ids, include_authorized_operations=operations
        )
        return response.groups

    async def delete_groups(self, *group_ids: str, version: int = 2) -> dict[str, ErrorCode]:
        response = await self.tell("delete_groups", version, groups_names=group_ids)
        return {each.group_id: each.error_code for each in response.results}


def made(kind: Any, fields: dict[str, Any]) -> Any:
    known = kind.__dataclass_fields__
    return kind(**{name: value for name, value in fields.items() if name in known})
