"""What the configuration keys are for, in a sentence each, for clients that ask.

DescribeConfigs has them from version 3 on.  A broker's key that topics inherit says so and names
what it is for them; other keys of a broker have a sentence where this broker acts on them.
"""

from __future__ import annotations

from typing import Final

from replica_manager.configuration.topic_keys import BROKER_SYNONYMS


def documentation_of_topic(key: str) -> str | None:
    """What that key of a topic is for."""
    return _TOPIC.get(key)


def documentation_of_broker(key: str) -> str | None:
    """What that key of a broker is for; None where nothing is to be said."""
    return _BROKER.get(key) or _INHERITED.get(key)


def _read(table: str) -> dict[str, str]:
    lines = (line.partition(" ") for line in table.strip().splitlines())
    return {name: sentence for name, _, sentence in lines}


_TOPIC: Final = _read("""
cleanup.policy What becomes of old segments: deleted after a time or beyond a size, compacted by key, or both.
compression.gzip.level Level of gzip where the topic's data is compressed with it; -1 is the library's own.
compression.lz4.level Level of lz4 where the topic's data is compressed with it.
compression.type How the topic's data is compressed; producer keeps what the producer chose.
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
max.compaction.lag.ms How long a message may at most stay out of compaction, in milliseconds.
max.message.bytes The largest batch of records that is taken, in bytes.
message.downconversion.enable Whether messages are converted for consumers that only read older formats.
message.format.version The version in which messages are written; without effect since protocol 3.0.
message.timestamp.after.max.ms How far a message's time may be ahead of the broker's, in milliseconds.
message.timestamp.before.max.ms How far a message's time may be behind the broker's, in milliseconds.
message.timestamp.difference.max.ms How far a message's time may differ from the broker's, in milliseconds; deprecated.
message.timestamp.type Whose time a message bears: that of its creation or that of its arrival.
min.cleanable.dirty.ratio The share of a log that must not be compacted yet before it is worth the work.
min.compaction.lag.ms How long a message stays out of compaction at least, in milliseconds.
min.insync.replicas How many replicas must have a record before a producer with acks=all is told so.
preallocate Whether a segment's file gets its full size when it is made.
remote.log.copy.disable Whether segments are no longer copied to remote storage.
remote.log.delete.on.disable Whether remote data goes when tiered storage is switched off for the topic.
remote.storage.enable Whether the topic's segments are copied to remote storage.
retention.bytes How many bytes a partition keeps before its oldest segments are deleted; -1 for no limit.
retention.ms How long a message is kept before its segment is deleted, in milliseconds; -1 for ever.
segment.bytes The size at which a log goes on in a new segment, in bytes.
segment.index.bytes The size of the index of a segment, in bytes.
segment.jitter.ms By how many milliseconds segments roll earlier at random, so that they do not all roll at once.
segment.ms After how many milliseconds a log goes on in a new segment, full or not.
unclean.leader.election.enable Whether a replica that is not in sync may lead when no other is left, at the price of lost records.
""")  # noqa: E501 - one line a key

_BROKER: Final = _read("""
advertised.listeners Where clients reach the listeners, if not where they are bound.
auto.create.topics.enable Whether a topic that somebody asks for comes into being.
auto.leader.rebalance.enable Whether the controller gives leaderships back to preferred leaders by itself.
broker.id The number of this broker in the cluster; -1 to be given one.
broker.id.generation.enable Whether a broker without a number is given one.
broker.rack Where this broker stands, so that replicas are spread over racks.
connections.max.idle.ms After how long a silent connection is closed, in milliseconds.
control.plane.listener.name The listener that only the controller uses.
controlled.shutdown.enable Whether a stopping broker hands its leaderships over first.
controlled.shutdown.max.retries How often a stopping broker asks again to hand its leaderships over.
controlled.shutdown.retry.backoff.ms How long a stopping broker waits before it asks again, in milliseconds.
controller.socket.timeout.ms How long the controller waits for the connection to a broker, in milliseconds.
default.replication.factor Replicas of a topic that is created without saying how many.
delete.topic.enable Whether topics may be deleted.
inter.broker.listener.name The listener by which brokers talk to each other.
inter.broker.protocol.version The version of the protocol that brokers speak with each other.
leader.imbalance.check.interval.seconds How often the controller looks whether leaders are where they should be.
leader.imbalance.per.broker.percentage The share of leaderships that may be elsewhere before the controller moves them back.
listener.security.protocol.map The security protocol of each listener.
listeners Where this broker listens, as name://host:port.
log.dir The directory for data, if log.dirs names none.
log.dirs The directories for data.
max.connections How many connections this broker accepts in all.
max.connections.per.ip How many connections one address may have.
max.connections.per.ip.overrides Other limits for single addresses, as host:count.
num.partitions Partitions of a topic that is created without saying how many.
request.timeout.ms How long a request to another broker may take, in milliseconds.
reserved.broker.max.id The highest number that a broker may be given by hand.
socket.request.max.bytes The largest request that is taken, in bytes.
zookeeper.connect ZooKeeper's servers as host:port, separated by commas, and the path of this cluster.
zookeeper.connection.timeout.ms How long to wait for the connection to ZooKeeper, in milliseconds.
zookeeper.max.in.flight.requests How many requests may wait for ZooKeeper's answer at a time.
zookeeper.session.timeout.ms After how long a silent broker is dead to the cluster, in milliseconds.
zookeeper.set.acl Whether znodes are made so that only this cluster can change them.
""")  # noqa: E501 - one line a key

_INHERITED: Final = {
    broker_key: f"For topics without {topic_key}: {_TOPIC[topic_key]}"
    for topic_key, synonyms in BROKER_SYNONYMS.items()
    for broker_key, _ in synonyms
}
