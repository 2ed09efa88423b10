"""The documentation of configuration keys, one sentence each, for DescribeConfigs.

Its responses have documentation from version 3 on.  The sentence of a broker key that topics
inherit is made from the topic key's.  Other broker keys have a sentence only if this broker uses
them.
"""

from __future__ import annotations

from typing import Final

from replica_manager.configuration.topic_keys import BROKER_SYNONYMS


def documentation_of_topic(key: str) -> str | None:
    """The documentation of a topic key; None for an unknown key."""
    return _TOPIC.get(key)


def documentation_of_broker(key: str) -> str | None:
    """The documentation of a broker key; None if it has none."""
    return _BROKER.get(key) or _INHERITED.get(key)


def _read(table: str) -> dict[str, str]:
    lines = (line.partition(" ") for line in table.strip().splitlines())
    return {name: sentence for name, _, sentence in lines}


_TOPIC: Final = _read("""
cleanup.policy How old segments are removed: delete (by age or size), compact (by key), or both.
compression.gzip.level Level of gzip where the topic's data is compressed with it; -1 is the library's own.
compression.lz4.level Level of lz4 where the topic's data is compressed with it.
compression.type The compression codec of the topic's data; producer keeps the codec that the producer used.
compression.zstd.level Level of zstd where the topic's data is compressed with it.
delete.retention.ms How long a compacted log keeps the marker of a deleted key, in milliseconds.
file.delete.delay.ms How long a file stays on disk after it is no longer part of a log, in milliseconds.
flush.messages After how many messages the log is forced to disk.
flush.ms After how many milliseconds the log is forced to disk.
follower.replication.throttled.replicas Replicas whose fetching is slowed down, as partition:broker pairs, or * for all.
index.interval.bytes After how many bytes of messages the index gets an entry.
leader.replication.throttled.replicas Replicas whose serving of followers is slowed down, as partition:broker pairs, or * for all.
local.retention.bytes How many bytes of a tiered partition stay on local disks; -2 means as retention.bytes.
local.retention.ms How long segments of a tiered topic stay on local disks; -2 means as retention.ms.
max.compaction.lag.ms The longest time before a message is compacted, in milliseconds.
max.message.bytes The largest batch of records that the broker accepts, in bytes.
message.downconversion.enable Whether messages are converted for consumers that only read older formats.
message.format.version The version in which messages are written; without effect since protocol 3.0.
message.timestamp.after.max.ms How far a message's time may be ahead of the broker's, in milliseconds.
message.timestamp.before.max.ms How far a message's time may be behind the broker's, in milliseconds.
message.timestamp.difference.max.ms How far a message's time may differ from the broker's, in milliseconds; deprecated.
message.timestamp.type Which timestamp a message has: CreateTime (set by the producer) or LogAppendTime (set by the broker).
min.cleanable.dirty.ratio The share of a log that must be uncompacted before the log is compacted.
min.compaction.lag.ms The shortest time before a message is compacted, in milliseconds.
min.insync.replicas How many replicas must be in sync before a record with acks=all is accepted.
preallocate Whether a segment's file is created with its full size.
remote.log.copy.disable Whether segments are no longer copied to remote storage.
remote.log.delete.on.disable Whether remote data is deleted when tiered storage is switched off for the topic.
remote.storage.enable Whether the topic's segments are copied to remote storage.
retention.bytes How many bytes a partition may have before its oldest segments are deleted; -1 for no limit.
retention.ms How long a message is kept before its segment is deleted, in milliseconds; -1 for ever.
segment.bytes The size of a segment, in bytes; then the log begins a new one.
segment.index.bytes The size of the index of a segment, in bytes.
segment.jitter.ms The longest random time by which a segment is rolled earlier, in milliseconds, so that segments are not all rolled at once.
segment.ms After how many milliseconds a log begins a new segment, even if the last one is not full.
unclean.leader.election.enable Whether a replica that is not in sync may become leader when no other is left; records may be lost.
""")  # noqa: E501 - one line a key

_BROKER: Final = _read("""
advertised.listeners The addresses that clients use, if they differ from those in listeners.
auto.create.topics.enable Whether a topic that a client requests and that does not exist is created.
auto.leader.rebalance.enable Whether the controller returns leadership to preferred leaders automatically.
broker.id The id of this broker in the cluster; -1 to have one generated.
broker.id.generation.enable Whether an id is generated for a broker whose broker.id is -1.
broker.rack The rack of this broker; replicas are spread over racks.
connections.max.idle.ms After how long an idle connection is closed, in milliseconds.
control.plane.listener.name The listener that only the controller uses.
controlled.shutdown.enable Whether a broker moves its leaderships to others before it stops.
controlled.shutdown.max.retries How many times a stopping broker retries to move its leaderships to others.
controlled.shutdown.retry.backoff.ms How long a stopping broker waits before each of these retries, in milliseconds.
controller.socket.timeout.ms How long the controller waits for the connection to a broker, in milliseconds.
default.replication.factor The replication factor of topics that are created without one.
delete.topic.enable Whether topics may be deleted.
inter.broker.listener.name The listener that brokers use among themselves.
inter.broker.protocol.version The version of the protocol that brokers speak with each other.
leader.imbalance.check.interval.seconds How often the controller checks whether leaders are the preferred ones, in seconds.
leader.imbalance.per.broker.percentage The percentage of a broker's leaderships that others may have before the controller moves them back.
listener.security.protocol.map The security protocol of each listener.
listeners The addresses on which this broker listens, as name://host:port.
log.dir The directory for data, if log.dirs names none.
log.dirs The directories for data.
max.connections How many connections this broker accepts in all.
max.connections.per.ip How many connections one address may have.
max.connections.per.ip.overrides Limits of connections for single addresses, as host:count, instead of max.connections.per.ip.
num.partitions The number of partitions of topics that are created without one.
request.timeout.ms How long a request to another broker may take, in milliseconds.
reserved.broker.max.id The highest broker.id that may be configured; generated ids are higher.
socket.request.max.bytes The largest request that the broker accepts, in bytes.
zookeeper.connect ZooKeeper's servers as host:port, separated by commas, and the path of this cluster.
zookeeper.connection.timeout.ms How long to wait for the connection to ZooKeeper, in milliseconds.
zookeeper.max.in.flight.requests How many requests may wait for ZooKeeper's response at a time.
zookeeper.session.timeout.ms After how long without contact ZooKeeper ends a broker's session, in milliseconds.
zookeeper.set.acl Whether znodes are created with ACLs by which only the brokers can change them.
""")  # noqa: E501 - one line a key

_INHERITED: Final = {
    broker_key: f"For topics without {topic_key}: {_TOPIC[topic_key]}"
    for topic_key, synonyms in BROKER_SYNONYMS.items()
    for broker_key, _ in synonyms
}
