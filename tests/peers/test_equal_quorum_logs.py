"""One scenario under our quorum and Kafka's: each line that our nodes write, Kafka's write too.

A line counts without its numbers, names, ids and paths.  Kafka's controllers write more lines:
about threads, channels and publishers that ours do not have.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import ElectionType, TopicPartition

from tests.peers.kraft_cluster import PATIENCE_S, KRaftCluster
from tests.support.kafka_log_shapes import RECORD

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide the classes

CONFIGS: Final = "kafka.admin.ConfigCommand"
REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
STAYS: Final = 11
GOES: Final = 12
PROPERTIES: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    # So that some snapshots are written, and none is needed by a node that starts again.
    "metadata.log.max.record.bytes.between.snapshots": "6000",
}
NOT_IN_EACH_RUN: Final = (
    # What only some elections and some registrations have.
    r"INFO \[RaftManager id=0\] Election has timed out, backing off for 0ms before .*",
    r"INFO \[RaftManager id=0\] Insufficient remaining votes to become leader .*",
    r"INFO \[RaftManager id=0\] Re-elect as candidate after election backoff has completed .*",
    r"INFO \[RaftManager id=0\] Become candidate due to fetch timeout .*",
    r"INFO \[RaftManager id=0\] Failed to handle fetch from R due to NOT_LEADER_OR_FOLLOWER .*",
    r"INFO \[RaftManager id=0\] Vote request V with epoch 0 is rejected .*",
    r"INFO \[RaftManager id=0\] (Attempting durable|Completed) transition to S from (S|null) .*",
    r"INFO \[QuorumController id=0\] \w+: event failed with ID in 0 microseconds.*",
    r"INFO \[QuorumController id=0\] writeNoOpRecord: event failed with NotLeaderException .*",
    r"WARN \[QuorumController id=0\] Renouncing the leadership due to a metadata log event\. .*",
    r"INFO \[QuorumController id=0\] CreateTopics result.*: TOPIC_ALREADY_EXISTS .*",
    r"INFO \[QuorumController id=0\] failAll\(ID\): failing \w+\(0\)\. .*",
    r"INFO \[ControllerRegistrationManager id=0 incarnation=ID\] Found registration for ID .*",
)
"""Lines of Kafka's, in this form, that may be missing in a run of its controllers.  As long as an
id is ``NotControllerException``, which is therefore masked, too."""
OUR_OWN: Final = (
    r"INFO \[ControllerRegistrationManager id=0 incarnation=ID\] Unable to send the regis.*",
)
_STATES: Final = r"(Unattached|CandidateState|Leader|FollowerState|ResignedState)\("
_MASKS: Final = (
    (rf"transition to {_STATES}.*\) from null", "transition to S from null"),
    (rf"transition to {_STATES}.*\) from {_STATES}.*\)", "transition to S from S"),
    (r"Vote request VoteRequestData\(.*\) with", "Vote request V with"),
    (r"fetch from ReplicaKey\(.*\) at \d+", "fetch from R"),
    (r"High watermark set to .* for the first", "High watermark set to W for the first"),
    (r"and voters \[ReplicaState.*\]", "and voters V"),
    (r"(?<!\w)/(?:[\w.-]+/)*[\w.-]+(?::\d+)?", "/P"),
    (r"\b127\.0\.0\.1(?::\d+)?", "H"),
    # This quorum has static voters only, so its nodes do not support that feature.
    (r"Feature\(name='kraft.version', [^)]*\), ", ""),
    (r"supportedFeatures=\{kraft.version: [\d-]+, ", "supportedFeatures={"),
    (r"(listener|offset of) \S+(?= \(org| to )", r"\1 L"),
    (r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])", "ID"),
    (r"-?\d+(?:\.\d+)?", "0"),
    (r"\b(0|ID)(?:, \1)+\b", r"\1"),
)


def masked(line: str) -> str:
    """``LEVEL message (logger)`` without what differs from run to run."""
    for pattern, mask in _MASKS:
        line = re.sub(pattern, mask, line)
    return line


def scenario(cluster: KRaftCluster, directory: Path) -> dict[str, str]:
    """Topics, settings, users, rules, a death, an orderly stop, elections; the lines by form."""
    cluster.start()
    admin = cluster.admin

    def done(futures: dict[object, Any]) -> None:
        for future in futures.values():
            future.result(PATIENCE_S)

    def wait_until_led(by: Callable[[int, list[int], list[int]], bool]) -> None:
        cluster.wait_until(
            lambda: all(by(*each) for each in cluster.partitions("orders").values()),
            "all partitions are as they should be",
        )

    cluster.create("orders", 3, 2, **{"retention.ms": "3600000"})
    done(admin.create_partitions([_admin.NewPartitions("orders", 4)]))
    for value, operation in (("123456", "SET"), (None, "DELETE")):
        entry = _admin.ConfigEntry(
            "max.message.bytes", value,
            incremental_operation=_admin.AlterConfigOpType[operation],
        )  # fmt: skip
        change = _admin.ConfigResource("topic", "orders", incremental_configs=[entry])
        done(admin.incremental_alter_configs([change]))
    scram = _admin.ScramCredentialInfo(_admin.ScramMechanism.SCRAM_SHA_256, 4096)
    for password in (b"first", b"second"):
        upsertion = _admin.UserScramCredentialUpsertion("ann", scram, password)
        done(admin.alter_user_scram_credentials([upsertion]))
    deletion = _admin.UserScramCredentialDeletion("ann", scram.mechanism)
    done(admin.alter_user_scram_credentials([deletion]))
    rule = (_admin.ResourceType.TOPIC, "orders", _admin.ResourcePatternType.LITERAL, "User:ann",
            "*", _admin.AclOperation.READ, _admin.AclPermissionType.ALLOW)  # fmt: skip
    done(admin.create_acls([_admin.AclBinding(*rule)]))
    done(admin.delete_acls([_admin.AclBindingFilter(*rule)]))
    client = ("--entity-type", "clients", "--entity-name", "app")
    cluster.tool(CONFIGS, "--alter", *client, "--add-config", "producer_byte_rate=12345")
    # Any of the brokers is asked which quotas there are to delete.
    cluster.wait_until(
        lambda: "producer_byte_rate" in cluster.tool(CONFIGS, "--describe", *client), "the quota"
    )
    cluster.tool(CONFIGS, "--alter", *client, "--delete-config", "producer_byte_rate")
    cluster.produce("orders", range(100))
    cluster.consume("orders", 100, "readers")

    goes = cluster.brokers[GOES]
    goes.end(signal.SIGKILL)
    wait_until_led(lambda leader, _, isr: (leader, isr) == (STAYS, [STAYS]))
    goes.start()
    wait_until_led(lambda _, __, isr: isr == [STAYS, GOES])
    everything = [TopicPartition("orders", each) for each in range(4)]
    admin.elect_leaders(ElectionType.PREFERRED, everything).result(PATIENCE_S)
    goes.end(signal.SIGTERM)
    goes.start()
    wait_until_led(lambda _, __, isr: isr == [STAYS, GOES])
    plan = directory / "plan.json"
    moves = [{"topic": "orders", "partition": 0, "replicas": [GOES]},
             {"topic": "orders", "partition": 9, "replicas": [GOES]}]  # fmt: skip
    for part in (moves, moves[:1]):
        plan.write_text(json.dumps({"version": 1, "partitions": part}))
        options = ("--reassignment-json-file", str(plan), "--execute")
        cluster.tool(REASSIGN, *options, may_fail=True)
    cluster.wait_until(lambda: cluster.partitions("orders")[0][1] == [GOES], "it has moved")
    for name, replicas in (("orders", 2), ("wide", 5)):
        [refused] = admin.create_topics([_admin.NewTopic(name, 3, replicas)]).values()
        assert refused.exception(PATIENCE_S) is not None
    done(admin.delete_topics(["orders"]))

    quorum = cluster.quorum
    for end in ("kill", "stop"):
        leader = quorum.leader()
        getattr(quorum.voters[leader], end)()
        quorum.leader()
        quorum.start(leader)
        quorum.wait_until_all_follow()
    for voter in quorum.voters.values():
        voter.stop()
    records = [
        record
        for voter in quorum.voters.values()
        for line in voter.said().splitlines()
        if (record := RECORD.fullmatch(line)) is not None
    ]
    return {
        masked(f"{record['level']} {record['message']} ({record['logger']})"): record[0]
        for record in records
        if record["level"] not in ("TRACE", "DEBUG")
    }


def test_our_nodes_write_no_line_that_kafkas_controllers_do_not(
    kafka: Path,  # noqa: ARG001 - without Kafka there is nothing to compare with
    tmp_path: Path,
) -> None:
    written = []
    for side, ours in (("ours", (1, 2, 3)), ("kafkas", ())):
        cluster = KRaftCluster(tmp_path / side, ours, PROPERTIES)
        try:
            written.append(scenario(cluster, tmp_path / side))
        finally:
            cluster.close()
    by_us, by_kafka = written

    allowed = (*NOT_IN_EACH_RUN, *OUR_OWN)
    own = [
        line
        for form, line in by_us.items()
        if form not in by_kafka and not any(re.match(each, form) for each in allowed)
    ]
    assert len(by_us) > 70
    assert not own, "\n".join(own)
