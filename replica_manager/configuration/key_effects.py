"""What each configuration key does here: one table for brokers, one for topics.

A key is one of these, and ``test_key_effects.py`` holds the code to it::

    key effective MODULE                  that module reads it
    key refused WHAT IS ALLOWED           only that value is taken: it would leave out what a user
                                          relies on
    key refused_when_secured ...          the same, as soon as a listener has TLS or SASL
    key warned WHY                        taken, without effect; the log says so

Every key that can be changed while a broker runs is warned about, or takes effect at run time.

Source: Kafka 3.9.1 ``KafkaConfig``, ``LogConfig``, ``DynamicBrokerConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class KeyEffectKind(Enum):
    """What happens to a value that is set."""

    EFFECTIVE = "effective"
    REFUSED = "refused"
    REFUSED_WHEN_SECURED = "refused_when_secured"
    WARNED = "warned"


class KeyEffect(NamedTuple):
    """What one key does."""

    kind: KeyEffectKind
    text: str
    """The module that reads it, what is allowed, or why it has no effect."""


def _read(table: str) -> dict[str, KeyEffect]:
    lines = (line.split(" ", 2) for line in table.strip().splitlines())
    return {key: KeyEffect(KeyEffectKind(kind), text) for key, kind, text in lines}


def texts_of(effects: Mapping[str, KeyEffect], kind: KeyEffectKind) -> dict[str, str]:
    """The keys of one kind, each with its text."""
    return {key: effect.text for key, effect in effects.items() if effect.kind is kind}


BROKER_EFFECTS: Final = _read("""
advertised.listeners effective configuration.listeners
alter.config.policy.class.name refused no value: Java policies cannot be loaded
alter.log.dirs.replication.quota.window.num warned the rate of moves is kept from one batch to the next, without a window
alter.log.dirs.replication.quota.window.size.seconds warned the rate of moves is kept from one batch to the next, without a window
authorizer.class.name effective security.settings
auto.create.topics.enable effective server.handlers.metadata
auto.include.jmx.reporter warned metrics are served over HTTP, and no Java classes are loaded
auto.leader.rebalance.enable effective broker.broker_settings
background.threads effective broker.storage
broker.heartbeat.interval.ms warned only a KRaft cluster has a use for it
broker.id effective configuration.config
broker.id.generation.enable effective broker.broker_identity
broker.rack effective broker.zookeeper_metadata
broker.session.timeout.ms warned only a KRaft cluster has a use for it
client.quota.callback.class refused no value: Java callbacks cannot be loaded
compression.gzip.level effective log.log_config
compression.lz4.level effective log.log_config
compression.type effective log.log_config
compression.zstd.level effective log.log_config
connection.failed.authentication.delay.ms effective security.settings
connections.max.idle.ms effective broker.broker_settings
connections.max.reauth.ms effective security.settings
control.plane.listener.name effective configuration.listeners
controlled.shutdown.enable effective broker.broker_server
controlled.shutdown.max.retries effective broker.controlled_shutdown
controlled.shutdown.retry.backoff.ms effective broker.controlled_shutdown
controller.listener.names refused no value: it must be empty when not running in KRaft mode
controller.quorum.append.linger.ms warned only a KRaft cluster has a use for it
controller.quorum.bootstrap.servers warned only a KRaft cluster has a use for it
controller.quorum.election.backoff.max.ms warned only a KRaft cluster has a use for it
controller.quorum.election.timeout.ms warned only a KRaft cluster has a use for it
controller.quorum.fetch.timeout.ms warned only a KRaft cluster has a use for it
controller.quorum.request.timeout.ms warned only a KRaft cluster has a use for it
controller.quorum.retry.backoff.ms warned only a KRaft cluster has a use for it
controller.quorum.voters warned only a KRaft cluster has a use for it
controller.quota.window.num effective broker.broker_quotas
controller.quota.window.size.seconds effective broker.broker_quotas
controller.socket.timeout.ms effective broker.zookeeper_metadata
create.topic.policy.class.name refused no value: Java policies cannot be loaded
default.replication.factor effective server.topics.topic_admin
delegation.token.expiry.check.interval.ms effective broker.zookeeper_metadata
delegation.token.expiry.time.ms effective security.delegation_tokens
delegation.token.master.key effective security.delegation_tokens
delegation.token.max.lifetime.ms effective security.delegation_tokens
delegation.token.secret.key effective security.delegation_tokens
delete.records.purgatory.purge.interval.requests warned requests that wait leave nothing behind that has to be purged
delete.topic.enable effective broker.broker_settings
early.start.listeners warned only a KRaft cluster has a use for it
eligible.leader.replicas.enable warned only a KRaft cluster has a use for it
fetch.max.bytes effective server.handlers.fetch
fetch.purgatory.purge.interval.requests warned requests that wait leave nothing behind that has to be purged
group.consumer.assignors warned only the classic group protocol is there
group.consumer.heartbeat.interval.ms warned only the classic group protocol is there
group.consumer.max.heartbeat.interval.ms warned only the classic group protocol is there
group.consumer.max.session.timeout.ms warned only the classic group protocol is there
group.consumer.max.size warned only the classic group protocol is there
group.consumer.migration.policy warned only the classic group protocol is there
group.consumer.min.heartbeat.interval.ms warned only the classic group protocol is there
group.consumer.min.session.timeout.ms warned only the classic group protocol is there
group.consumer.session.timeout.ms warned only the classic group protocol is there
group.coordinator.append.linger.ms warned only the classic group protocol is there
group.coordinator.new.enable warned only the classic group protocol is there
group.coordinator.rebalance.protocols warned only the classic group protocol is there
group.coordinator.threads warned only the classic group protocol is there
group.initial.rebalance.delay.ms effective coordinators.group_settings
group.max.session.timeout.ms effective coordinators.group_settings
group.max.size effective coordinators.group_settings
group.min.session.timeout.ms effective coordinators.group_settings
group.share.delivery.count.limit warned only the classic group protocol is there
group.share.enable warned only the classic group protocol is there
group.share.heartbeat.interval.ms warned only the classic group protocol is there
group.share.max.groups warned only the classic group protocol is there
group.share.max.heartbeat.interval.ms warned only the classic group protocol is there
group.share.max.record.lock.duration.ms warned only the classic group protocol is there
group.share.max.session.timeout.ms warned only the classic group protocol is there
group.share.max.size warned only the classic group protocol is there
group.share.min.heartbeat.interval.ms warned only the classic group protocol is there
group.share.min.record.lock.duration.ms warned only the classic group protocol is there
group.share.min.session.timeout.ms warned only the classic group protocol is there
group.share.partition.max.record.locks warned only the classic group protocol is there
group.share.record.lock.duration.ms warned only the classic group protocol is there
group.share.session.timeout.ms warned only the classic group protocol is there
initial.broker.registration.timeout.ms warned only a KRaft cluster has a use for it
inter.broker.listener.name effective configuration.listeners
inter.broker.protocol.version effective configuration.config
kafka.metrics.polling.interval.secs warned metrics are served over HTTP, and no Java classes are loaded
kafka.metrics.reporters warned metrics are served over HTTP, and no Java classes are loaded
leader.imbalance.check.interval.seconds effective broker.broker_settings
leader.imbalance.per.broker.percentage effective broker.broker_settings
listener.security.protocol.map effective configuration.listeners
listeners effective configuration.listeners
log.cleaner.backoff.ms effective broker.storage
log.cleaner.dedupe.buffer.size effective broker.storage
log.cleaner.delete.retention.ms effective log.log_config
log.cleaner.enable effective broker.storage
log.cleaner.io.buffer.load.factor warned one log is compacted at a time, with buffers of its own
log.cleaner.io.buffer.size warned one log is compacted at a time, with buffers of its own
log.cleaner.io.max.bytes.per.second warned one log is compacted at a time, with buffers of its own
log.cleaner.max.compaction.lag.ms effective log.log_config
log.cleaner.min.cleanable.ratio effective log.log_config
log.cleaner.min.compaction.lag.ms effective log.log_config
log.cleaner.threads warned one log is compacted at a time, with buffers of its own
log.cleanup.policy effective log.log_config
log.dir effective configuration.config
log.dir.failure.timeout.ms warned only a KRaft cluster has a use for it
log.dirs effective broker.broker_identity
log.flush.interval.messages effective log.log_config
log.flush.interval.ms effective log.log_config
log.flush.offset.checkpoint.interval.ms effective broker.storage
log.flush.scheduler.interval.ms effective log.log_config
log.flush.start.offset.checkpoint.interval.ms effective broker.storage
log.index.interval.bytes effective log.log_config
log.index.size.max.bytes effective log.log_config
log.initial.task.delay.ms effective broker.storage
log.local.retention.bytes warned there is no tiered storage
log.local.retention.ms warned there is no tiered storage
log.message.downconversion.enable effective log.log_config
log.message.format.version warned since 3.0 Kafka does not heed it either; below, 0.11 or newer
log.message.timestamp.after.max.ms effective log.log_config
log.message.timestamp.before.max.ms effective log.log_config
log.message.timestamp.difference.max.ms effective log.log_config
log.message.timestamp.type effective log.log_config
log.preallocate warned files grow as they are written
log.retention.bytes effective log.log_config
log.retention.check.interval.ms effective broker.storage
log.retention.hours effective log.log_config
log.retention.minutes effective log.log_config
log.retention.ms effective log.log_config
log.roll.hours effective log.log_config
log.roll.jitter.hours effective log.log_config
log.roll.jitter.ms effective log.log_config
log.roll.ms effective log.log_config
log.segment.bytes effective log.log_config
log.segment.delete.delay.ms effective log.log_config
max.connection.creation.rate effective broker.broker_settings
max.connections effective broker.broker_settings
max.connections.per.ip effective broker.broker_settings
max.connections.per.ip.overrides effective broker.broker_settings
max.incremental.fetch.session.cache.slots effective broker.broker_records
max.request.partition.size.limit warned only a request of a KRaft cluster has this limit
message.max.bytes effective log.log_config
metadata.log.dir warned only a KRaft cluster has a use for it
metadata.log.max.record.bytes.between.snapshots warned only a KRaft cluster has a use for it
metadata.log.max.snapshot.interval.ms warned only a KRaft cluster has a use for it
metadata.log.segment.bytes warned only a KRaft cluster has a use for it
metadata.log.segment.min.bytes warned only a KRaft cluster has a use for it
metadata.log.segment.ms warned only a KRaft cluster has a use for it
metadata.max.idle.interval.ms warned only a KRaft cluster has a use for it
metadata.max.retention.bytes warned only a KRaft cluster has a use for it
metadata.max.retention.ms warned only a KRaft cluster has a use for it
metric.reporters warned metrics are served over HTTP, and no Java classes are loaded
metrics.num.samples effective coordinators.group_settings
metrics.recording.level warned metrics are served over HTTP, and no Java classes are loaded
metrics.sample.window.ms effective coordinators.group_settings
min.insync.replicas effective log.log_config
node.id effective configuration.meta_properties
num.io.threads effective broker.broker_server
num.network.threads warned one event loop serves all connections
num.partitions effective server.topics.topic_admin
num.recovery.threads.per.data.dir effective broker.storage
num.replica.alter.log.dirs.threads effective broker.broker_records
num.replica.fetchers effective broker.broker_records
offset.metadata.max.bytes effective coordinators.group_settings
offsets.commit.required.acks effective coordinators.group_settings
offsets.commit.timeout.ms effective coordinators.group_settings
offsets.load.buffer.size effective coordinators.group_settings
offsets.retention.check.interval.ms effective coordinators.group_settings
offsets.retention.minutes effective coordinators.group_settings
offsets.topic.compression.codec effective coordinators.group_settings
offsets.topic.num.partitions effective server.topics.auto_creation
offsets.topic.replication.factor effective server.topics.auto_creation
offsets.topic.segment.bytes effective server.topics.auto_creation
password.encoder.cipher.algorithm effective security.password_encoder
password.encoder.iterations effective security.password_encoder
password.encoder.key.length effective security.password_encoder
password.encoder.keyfactory.algorithm effective security.password_encoder
password.encoder.old.secret effective security.dynamic_passwords
password.encoder.secret effective security.dynamic_passwords
principal.builder.class refused no value: Java principal builders cannot be loaded
process.roles refused no value: this is a ZooKeeper-mode broker
producer.id.expiration.check.interval.ms effective broker.storage
producer.id.expiration.ms effective broker.storage
producer.purgatory.purge.interval.requests warned requests that wait leave nothing behind that has to be purged
queued.max.request.bytes effective broker.broker_settings
queued.max.requests warned a connection has one request at a time
quota.window.num effective broker.broker_quotas
quota.window.size.seconds effective broker.broker_quotas
remote.fetch.max.wait.ms warned there is no tiered storage
remote.log.index.file.cache.total.size.bytes warned there is no tiered storage
remote.log.manager.copier.thread.pool.size warned there is no tiered storage
remote.log.manager.copy.max.bytes.per.second warned there is no tiered storage
remote.log.manager.copy.quota.window.num warned there is no tiered storage
remote.log.manager.copy.quota.window.size.seconds warned there is no tiered storage
remote.log.manager.expiration.thread.pool.size warned there is no tiered storage
remote.log.manager.fetch.max.bytes.per.second warned there is no tiered storage
remote.log.manager.fetch.quota.window.num warned there is no tiered storage
remote.log.manager.fetch.quota.window.size.seconds warned there is no tiered storage
remote.log.manager.task.interval.ms warned there is no tiered storage
remote.log.manager.task.retry.backoff.max.ms warned there is no tiered storage
remote.log.manager.task.retry.backoff.ms warned there is no tiered storage
remote.log.manager.task.retry.jitter warned there is no tiered storage
remote.log.manager.thread.pool.size warned there is no tiered storage
remote.log.metadata.custom.metadata.max.bytes warned there is no tiered storage
remote.log.metadata.manager.class.name warned there is no tiered storage
remote.log.metadata.manager.class.path warned there is no tiered storage
remote.log.metadata.manager.impl.prefix warned there is no tiered storage
remote.log.metadata.manager.listener.name warned there is no tiered storage
remote.log.reader.max.pending.tasks warned there is no tiered storage
remote.log.reader.threads warned there is no tiered storage
remote.log.storage.manager.class.name warned there is no tiered storage
remote.log.storage.manager.class.path warned there is no tiered storage
remote.log.storage.manager.impl.prefix warned there is no tiered storage
remote.log.storage.system.enable refused false: tiered storage is not supported
replica.fetch.backoff.ms effective replication.replication_tasks
replica.fetch.max.bytes effective broker.broker_records
replica.fetch.min.bytes effective replication.replication_tasks
replica.fetch.response.max.bytes effective replication.replication_tasks
replica.fetch.wait.max.ms effective replication.replication_tasks
replica.high.watermark.checkpoint.interval.ms effective broker.storage
replica.lag.time.max.ms effective broker.broker_records
replica.selector.class effective server.handlers.fetch
replica.socket.receive.buffer.bytes warned the operating system sizes that buffer
replica.socket.timeout.ms effective replication.replication_tasks
replication.quota.window.num effective broker.broker_server
replication.quota.window.size.seconds effective broker.broker_server
request.timeout.ms effective broker.broker_settings
reserved.broker.max.id effective broker.broker_identity
sasl.client.callback.handler.class refused_when_secured no value: Java callbacks cannot be loaded
sasl.enabled.mechanisms effective security.settings
sasl.jaas.config effective security.client_properties
sasl.kerberos.kinit.cmd warned only PLAIN and SCRAM are there
sasl.kerberos.min.time.before.relogin warned only PLAIN and SCRAM are there
sasl.kerberos.principal.to.local.rules warned only PLAIN and SCRAM are there
sasl.kerberos.service.name warned only PLAIN and SCRAM are there
sasl.kerberos.ticket.renew.jitter warned only PLAIN and SCRAM are there
sasl.kerberos.ticket.renew.window.factor warned only PLAIN and SCRAM are there
sasl.login.callback.handler.class refused_when_secured no value: Java callbacks cannot be loaded
sasl.login.class refused_when_secured no value: Java logins cannot be loaded
sasl.login.connect.timeout.ms warned only PLAIN and SCRAM are there
sasl.login.read.timeout.ms warned only PLAIN and SCRAM are there
sasl.login.refresh.buffer.seconds warned only PLAIN and SCRAM are there
sasl.login.refresh.min.period.seconds warned only PLAIN and SCRAM are there
sasl.login.refresh.window.factor warned only PLAIN and SCRAM are there
sasl.login.refresh.window.jitter warned only PLAIN and SCRAM are there
sasl.login.retry.backoff.max.ms warned only PLAIN and SCRAM are there
sasl.login.retry.backoff.ms warned only PLAIN and SCRAM are there
sasl.mechanism.controller.protocol warned only a KRaft cluster has a use for it
sasl.mechanism.inter.broker.protocol effective security.settings
sasl.oauthbearer.clock.skew.seconds warned only PLAIN and SCRAM are there
sasl.oauthbearer.expected.audience warned only PLAIN and SCRAM are there
sasl.oauthbearer.expected.issuer warned only PLAIN and SCRAM are there
sasl.oauthbearer.jwks.endpoint.refresh.ms warned only PLAIN and SCRAM are there
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms warned only PLAIN and SCRAM are there
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms warned only PLAIN and SCRAM are there
sasl.oauthbearer.jwks.endpoint.url warned only PLAIN and SCRAM are there
sasl.oauthbearer.scope.claim.name warned only PLAIN and SCRAM are there
sasl.oauthbearer.sub.claim.name warned only PLAIN and SCRAM are there
sasl.oauthbearer.token.endpoint.url warned only PLAIN and SCRAM are there
sasl.server.callback.handler.class refused_when_secured no value: Java callbacks cannot be loaded
sasl.server.max.receive.size effective security.settings
security.inter.broker.protocol effective configuration.config
security.providers warned TLS is OpenSSL's
server.max.startup.time.ms warned only a KRaft cluster has a use for it
socket.connection.setup.timeout.max.ms effective network.broker_links
socket.connection.setup.timeout.ms effective network.broker_links
socket.listen.backlog.size effective broker.broker_settings
socket.receive.buffer.bytes effective broker.broker_settings
socket.request.max.bytes effective broker.broker_settings
socket.send.buffer.bytes effective broker.broker_settings
ssl.allow.dn.changes effective security.dynamic_tls
ssl.allow.san.changes effective security.dynamic_tls
ssl.cipher.suites refused_when_secured no value: OpenSSL's own choice of suites is used
ssl.client.auth effective security.settings
ssl.enabled.protocols effective security.tls
ssl.endpoint.identification.algorithm effective security.tls
ssl.engine.factory.class refused_when_secured no value: Java factories cannot be loaded
ssl.key.password effective security.key_material
ssl.keymanager.algorithm warned TLS is OpenSSL's
ssl.keystore.certificate.chain effective security.key_material
ssl.keystore.key effective security.key_material
ssl.keystore.location effective security.key_material
ssl.keystore.password effective security.key_material
ssl.keystore.type effective security.tls
ssl.principal.mapping.rules effective security.principals
ssl.protocol warned TLS is OpenSSL's
ssl.provider refused_when_secured no value: TLS is OpenSSL's
ssl.secure.random.implementation refused_when_secured no value: random numbers are OpenSSL's
ssl.trustmanager.algorithm warned TLS is OpenSSL's
ssl.truststore.certificates effective security.key_material
ssl.truststore.location effective security.key_material
ssl.truststore.password effective security.key_material
ssl.truststore.type effective security.tls
telemetry.max.bytes warned clients' metrics are not taken
transaction.abort.timed.out.transaction.cleanup.interval.ms effective coordinators.transaction_settings
transaction.max.timeout.ms effective broker.broker_records
transaction.partition.verification.enable effective broker.storage
transaction.remove.expired.transaction.cleanup.interval.ms effective coordinators.transaction_settings
transaction.state.log.load.buffer.size effective coordinators.transaction_settings
transaction.state.log.min.isr effective server.topics.auto_creation
transaction.state.log.num.partitions effective server.topics.auto_creation
transaction.state.log.replication.factor effective server.topics.auto_creation
transaction.state.log.segment.bytes effective server.topics.auto_creation
transactional.id.expiration.ms effective coordinators.transaction_settings
unclean.leader.election.enable effective log.log_config
unclean.leader.election.interval.ms warned only a KRaft cluster has a use for it
unstable.api.versions.enable warned only a KRaft cluster has a use for it
unstable.feature.versions.enable warned only a KRaft cluster has a use for it
zookeeper.clientCnxnSocket effective security.zookeeper_tls
zookeeper.connect effective configuration.config
zookeeper.connection.timeout.ms effective configuration.config
zookeeper.max.in.flight.requests effective broker.broker_settings
zookeeper.metadata.migration.enable refused false: migration to KRaft is not supported
zookeeper.metadata.migration.min.batch.size warned there is no migration to KRaft
zookeeper.session.timeout.ms effective broker.zookeeper_metadata
zookeeper.set.acl effective broker.broker_settings
zookeeper.ssl.cipher.suites effective security.zookeeper_tls
zookeeper.ssl.client.enable effective security.zookeeper_tls
zookeeper.ssl.crl.enable effective security.zookeeper_tls
zookeeper.ssl.enabled.protocols effective security.tls
zookeeper.ssl.endpoint.identification.algorithm effective security.tls
zookeeper.ssl.keystore.location effective security.zookeeper_tls
zookeeper.ssl.keystore.password effective security.zookeeper_tls
zookeeper.ssl.keystore.type effective security.zookeeper_tls
zookeeper.ssl.ocsp.enable effective security.zookeeper_tls
zookeeper.ssl.protocol effective security.zookeeper_tls
zookeeper.ssl.truststore.location effective security.tls
zookeeper.ssl.truststore.password effective security.zookeeper_tls
zookeeper.ssl.truststore.type effective security.zookeeper_tls
""")  # noqa: E501 - one line a key

TOPIC_EFFECTS: Final = _read("""
cleanup.policy effective log.log_config
compression.gzip.level effective log.log_config
compression.lz4.level effective log.log_config
compression.type effective log.log_config
compression.zstd.level effective log.log_config
delete.retention.ms effective log.log_config
file.delete.delay.ms effective log.log_config
flush.messages effective log.log_config
flush.ms effective log.log_config
follower.replication.throttled.replicas effective replication.throttle
index.interval.bytes effective log.log_config
leader.replication.throttled.replicas effective replication.throttle
local.retention.bytes warned there is no tiered storage
local.retention.ms warned there is no tiered storage
max.compaction.lag.ms effective log.log_config
max.message.bytes effective log.log_config
message.downconversion.enable effective log.log_config
message.format.version warned since 3.0 Kafka does not heed it either; below, 0.11 or newer
message.timestamp.after.max.ms effective log.log_config
message.timestamp.before.max.ms effective log.log_config
message.timestamp.difference.max.ms effective log.log_config
message.timestamp.type effective log.log_config
min.cleanable.dirty.ratio effective log.log_config
min.compaction.lag.ms effective log.log_config
min.insync.replicas effective log.log_config
preallocate warned files grow as they are written
remote.log.copy.disable refused false: Kafka refuses it on a cluster with ZooKeeper
remote.log.delete.on.disable refused false: Kafka refuses it on a cluster with ZooKeeper
remote.storage.enable refused false: tiered storage is not there
retention.bytes effective log.log_config
retention.ms effective log.log_config
segment.bytes effective log.log_config
segment.index.bytes effective log.log_config
segment.jitter.ms effective log.log_config
segment.ms effective log.log_config
unclean.leader.election.enable effective log.log_config
""")
