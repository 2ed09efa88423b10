"""Administrative requests: partitions, reassignments, elections, configurations of topics.

A refusal for one partition or topic is part of the result, not an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from kio.schema.alter_partition_reassignments.v0 import request as alter_reassignments
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)
from kio.schema.create_partitions.v3 import request as create_partitions
from kio.schema.create_partitions.v3.response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kio.schema.describe_configs.v4 import request as describe_configs
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.elect_leaders.v2 import request as elect_leaders
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32

from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.requests import (
    Deadline,
    ask_controller,
    connected,
    error_text,
    parse_bootstrap,
    raise_for_code,
    timeout_of,
)
from zkcontroller_cli.wire.versions import BrokerConnection

TOPIC: Final = 2
BROKER: Final = 4
_UNKNOWN_SOURCE: Final = 0
_TOPIC_SOURCE: Final = 1
"""Where a configuration value is set: ``ConfigSource`` of DescribeConfigs."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one partition of a request."""

    topic: str
    partition: int
    error_code: ErrorCode
    error_message: str | None

    @property
    def error(self) -> str | None:
        """The name of the error code; None if there is no error."""
        return None if self.error_code is ErrorCode.none else self.error_code.name.upper()

    @property
    def reason(self) -> str | None:
        """The broker's message, or the default message of the error."""
        return None if self.error is None else self.error_message or error_text(self.error_code)


class Ongoing(NamedTuple):
    """A partition under reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


async def add_partitions(
    bootstrap: Bootstrap,
    deadline: Deadline,
    topic: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    *,
    is_dry_run: bool,
) -> CreatePartitionsTopicResult:
    """Give the topic ``count`` partitions in all; the result may carry an error code."""

    async def ask(connection: BrokerConnection) -> list[CreatePartitionsTopicResult]:
        wanted = create_partitions.CreatePartitionsTopic(
            name=TopicName(topic),
            count=i32(count),
            assignments=None
            if assignments is None
            else tuple(
                create_partitions.CreatePartitionsAssignment(
                    broker_ids=tuple(map(BrokerId, replicas))
                )
                for replicas in assignments
            ),
        )
        response = await connection.request(
            create_partitions.CreatePartitionsRequest(
                topics=(wanted,), timeout=timeout_of(deadline), validate_only=is_dry_run
            )
        )
        assert isinstance(response, CreatePartitionsResponse), "request() answers in kind"
        return list(response.results)

    [result] = await ask_controller(bootstrap, deadline, ask, changes_nothing=is_dry_run)
    return result


async def reassign(
    bootstrap: Bootstrap,
    deadline: Deadline,
    targets: Sequence[tuple[NamedPartition, tuple[int, ...] | None]],
) -> list[Verdict]:
    """Start reassignments, or cancel those whose target is None; one result per partition."""
    by_topic: dict[str, list[alter_reassignments.ReassignablePartition]] = {}
    for (topic, partition), replicas in targets:
        by_topic.setdefault(topic, []).append(
            alter_reassignments.ReassignablePartition(
                partition_index=i32(partition),
                replicas=None if replicas is None else tuple(map(BrokerId, replicas)),
            )
        )

    async def ask(
        connection: BrokerConnection,
    ) -> list[Verdict | AlterPartitionReassignmentsResponse]:
        response = await connection.request(
            alter_reassignments.AlterPartitionReassignmentsRequest(
                timeout=timeout_of(deadline),
                topics=tuple(
                    alter_reassignments.ReassignableTopic(
                        name=TopicName(topic), partitions=tuple(partitions)
                    )
                    for topic, partitions in by_topic.items()
                ),
            )
        )
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        if response.error_code is not ErrorCode.none:
            return [response]
        return [
            Verdict(str(topic.name), int(each.partition_index), each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        ]

    verdicts = []
    for result in await ask_controller(bootstrap, deadline, ask):
        if isinstance(result, AlterPartitionReassignmentsResponse):
            raise_for_code("the reassignment", result.error_code, result.error_message)
        else:
            verdicts.append(result)
    return verdicts


async def ongoing_reassignments(bootstrap: Bootstrap, deadline: Deadline) -> list[Ongoing]:
    """Every partition that is being reassigned, sorted by topic and partition."""

    async def ask(connection: BrokerConnection) -> list[ListPartitionReassignmentsResponse]:
        response = await connection.request(
            ListPartitionReassignmentsRequest(timeout=timeout_of(deadline), topics=None)
        )
        assert isinstance(response, ListPartitionReassignmentsResponse)
        return [response]

    [response] = await ask_controller(bootstrap, deadline, ask, changes_nothing=True)
    raise_for_code("the list of reassignments", response.error_code, response.error_message)
    return sorted(
        Ongoing(
            str(topic.name),
            int(each.partition_index),
            tuple(map(int, each.replicas)),
            tuple(map(int, each.adding_replicas)),
            tuple(map(int, each.removing_replicas)),
        )
        for topic in response.topics
        for each in topic.partitions
    )


async def elect(
    bootstrap: Bootstrap,
    deadline: Deadline,
    partitions: Sequence[NamedPartition] | None,
    *,
    is_unclean: bool,
) -> list[Verdict]:
    """Elect leaders for these partitions; one result per partition.

    None: for all partitions; the result then leaves out those that needed no election.
    """
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions or ():
        by_topic.setdefault(topic, []).append(partition)
    named = tuple(
        elect_leaders.TopicPartitions(topic=TopicName(topic), partitions=tuple(map(i32, those)))
        for topic, those in by_topic.items()
    )

    async def ask(connection: BrokerConnection) -> list[Verdict | ElectLeadersResponse]:
        response = await connection.request(
            elect_leaders.ElectLeadersRequest(
                election_type=i8(int(is_unclean)),
                topic_partitions=None if partitions is None else named,
                timeout=timeout_of(deadline),
            )
        )
        assert isinstance(response, ElectLeadersResponse), "request() answers in kind"
        if response.error_code is not ErrorCode.none:
            return [response]
        return [
            Verdict(str(topic.topic), int(each.partition_id), each.error_code, each.error_message)
            for topic in response.replica_election_results
            for each in topic.partition_result
        ]

    verdicts = []
    for result in await ask_controller(bootstrap, deadline, ask):
        if isinstance(result, ElectLeadersResponse):
            raise_for_code("the election", result.error_code)
        else:
            verdicts.append(result)
    return sorted(verdicts, key=attrgetter("topic", "partition"))


async def configs_set_on(
    bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str]
) -> dict[str, dict[str, str | None] | None]:
    """By topic, the keys and values that are set on the topic itself.

    None for a topic whose configuration the broker does not show, and where the broker does not
    say which values come from the topic (before Kafka 1.1).
    """
    resources = tuple(
        describe_configs.DescribeConfigsResource(
            resource_type=i8(TOPIC), resource_name=topic, configuration_keys=None
        )
        for topic in topics
    )
    where = parse_bootstrap(bootstrap.servers)
    async with connected(where, deadline, bootstrap.security) as connection:
        response = await connection.request(
            describe_configs.DescribeConfigsRequest(
                resources=resources, include_synonyms=False, include_documentation=False
            )
        )
    assert isinstance(response, DescribeConfigsResponse), "request() answers in kind"
    found: dict[str, dict[str, str | None] | None] = {}
    for result in response.results:
        is_shown = result.error_code is ErrorCode.none and all(
            config.config_source != _UNKNOWN_SOURCE for config in result.configs
        )
        found[result.resource_name] = (
            {c.name: c.value for c in result.configs if c.config_source == _TOPIC_SOURCE}
            if is_shown
            else None
        )
    return found
