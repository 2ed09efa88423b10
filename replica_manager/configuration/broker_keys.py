"""Every key a Kafka 3.9 broker knows, one line each: ``name type default [allowed]``.

Where Kafka's default is a class of its own (assignors, principal builder, remote log metadata
manager), its name is shown as Kafka shows it.  No such class is loaded here.

Source: Kafka 3.9.1 ``KafkaConfig.configDef``.
"""

from __future__ import annotations

from typing import Final

from replica_manager.configuration.config_keys import read_table

BROKER_KEYS: Final = read_table("""
advertised.listeners string null
alter.config.policy.class.name class null
alter.log.dirs.replication.quota.window.num int 11 1..
alter.log.dirs.replication.quota.window.size.seconds int 1 1..
authorizer.class.name string ""
auto.create.topics.enable boolean true
auto.include.jmx.reporter boolean true
auto.leader.rebalance.enable boolean true
background.threads int 10 1..
broker.heartbeat.interval.ms int 2000
broker.id int -1
broker.id.generation.enable boolean true
broker.rack string null
broker.session.timeout.ms int 9000
client.quota.callback.class class null
compression.gzip.level int -1 gzip_level
compression.lz4.level int 9 1..17
compression.type string producer in uncompressed|zstd|lz4|snappy|gzip|producer
compression.zstd.level int 3 -131072..22
connection.failed.authentication.delay.ms int 100 0..
connections.max.idle.ms long 600000
connections.max.reauth.ms long 0
control.plane.listener.name string null
controlled.shutdown.enable boolean true
controlled.shutdown.max.retries int 3
controlled.shutdown.retry.backoff.ms long 5000
controller.listener.names string null
controller.quorum.append.linger.ms int 25
controller.quorum.bootstrap.servers list ""
controller.quorum.election.backoff.max.ms int 1000
controller.quorum.election.timeout.ms int 1000
controller.quorum.fetch.timeout.ms int 2000
controller.quorum.request.timeout.ms int 2000
controller.quorum.retry.backoff.ms int 20
controller.quorum.voters list ""
controller.quota.window.num int 11 1..
controller.quota.window.size.seconds int 1 1..
controller.socket.timeout.ms int 30000
create.topic.policy.class.name class null
default.replication.factor int 1
delegation.token.expiry.check.interval.ms long 3600000 1..
delegation.token.expiry.time.ms long 86400000 1..
delegation.token.master.key password null
delegation.token.max.lifetime.ms long 604800000 1..
delegation.token.secret.key password null
delete.records.purgatory.purge.interval.requests int 1
delete.topic.enable boolean true
early.start.listeners string null
eligible.leader.replicas.enable boolean false
fetch.max.bytes int 57671680 1024..
fetch.purgatory.purge.interval.requests int 1000
group.consumer.assignors list org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor
group.consumer.heartbeat.interval.ms int 5000 1..
group.consumer.max.heartbeat.interval.ms int 15000 1..
group.consumer.max.session.timeout.ms int 60000 1..
group.consumer.max.size int 2147483647 1..
group.consumer.migration.policy string disabled ignore_case DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL
group.consumer.min.heartbeat.interval.ms int 5000 1..
group.consumer.min.session.timeout.ms int 45000 1..
group.consumer.session.timeout.ms int 45000 1..
group.coordinator.append.linger.ms int 10 0..
group.coordinator.new.enable boolean false
group.coordinator.rebalance.protocols list classic in consumer|classic|share|unknown
group.coordinator.threads int 1 1..
group.initial.rebalance.delay.ms int 3000
group.max.session.timeout.ms int 1800000
group.max.size int 2147483647 1..
group.min.session.timeout.ms int 6000
group.share.delivery.count.limit int 5 2..10
group.share.enable boolean false
group.share.heartbeat.interval.ms int 5000 1..
group.share.max.groups short 10 1..100
group.share.max.heartbeat.interval.ms int 15000 1..
group.share.max.record.lock.duration.ms int 60000 30000..3600000
group.share.max.session.timeout.ms int 60000 1..
group.share.max.size short 200 10..1000
group.share.min.heartbeat.interval.ms int 5000 1..
group.share.min.record.lock.duration.ms int 15000 1000..30000
group.share.min.session.timeout.ms int 45000 1..
group.share.partition.max.record.locks int 200 100..10000
group.share.record.lock.duration.ms int 30000 1000..60000
group.share.session.timeout.ms int 45000 1..
initial.broker.registration.timeout.ms int 60000
inter.broker.listener.name string null
inter.broker.protocol.version string 3.9-IV0 version
kafka.metrics.polling.interval.secs int 10 1..
kafka.metrics.reporters list ""
leader.imbalance.check.interval.seconds long 300 1..
leader.imbalance.per.broker.percentage int 10
listener.security.protocol.map string SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
listeners string PLAINTEXT://:9092
log.cleaner.backoff.ms long 15000 0..
log.cleaner.dedupe.buffer.size long 134217728
log.cleaner.delete.retention.ms long 86400000 0..
log.cleaner.enable boolean true
log.cleaner.io.buffer.load.factor double 0.9
log.cleaner.io.buffer.size int 524288 0..
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308
log.cleaner.max.compaction.lag.ms long max 1..
log.cleaner.min.cleanable.ratio double 0.5 0..1
log.cleaner.min.compaction.lag.ms long 0 0..
log.cleaner.threads int 1 0..
log.cleanup.policy list delete in compact|delete
log.dir string /tmp/kafka-logs
log.dir.failure.timeout.ms long 30000 1..
log.dirs string null
log.flush.interval.messages long max 1..
log.flush.interval.ms long null
log.flush.offset.checkpoint.interval.ms int 60000 0..
log.flush.scheduler.interval.ms long max
log.flush.start.offset.checkpoint.interval.ms int 60000 0..
log.index.interval.bytes int 4096 0..
log.index.size.max.bytes int 10485760 4..
log.initial.task.delay.ms long 30000 0..
log.local.retention.bytes long -2 -2..
log.local.retention.ms long -2 -2..
log.message.downconversion.enable boolean true
log.message.format.version string 3.0-IV1 version
log.message.timestamp.after.max.ms long max 0..
log.message.timestamp.before.max.ms long max 0..
log.message.timestamp.difference.max.ms long max 0..
log.message.timestamp.type string CreateTime in CreateTime|LogAppendTime
log.preallocate boolean false
log.retention.bytes long -1
log.retention.check.interval.ms long 300000 1..
log.retention.hours int 168
log.retention.minutes int null
log.retention.ms long null
log.roll.hours int 168 1..
log.roll.jitter.hours int 0 0..
log.roll.jitter.ms long null
log.roll.ms long null
log.segment.bytes int 1073741824 14..
log.segment.delete.delay.ms long 60000 0..
max.connection.creation.rate int 2147483647 0..
max.connections int 2147483647 0..
max.connections.per.ip int 2147483647 0..
max.connections.per.ip.overrides string ""
max.incremental.fetch.session.cache.slots int 1000 0..
max.request.partition.size.limit int 2000 1..
message.max.bytes int 1048588 0..
metadata.log.dir string null
metadata.log.max.record.bytes.between.snapshots long 20971520 1..
metadata.log.max.snapshot.interval.ms long 3600000 0..
metadata.log.segment.bytes int 1073741824 12..
metadata.log.segment.min.bytes int 8388608 12..
metadata.log.segment.ms long 604800000
metadata.max.idle.interval.ms int 500 0..
metadata.max.retention.bytes long 104857600
metadata.max.retention.ms long 604800000
metric.reporters list ""
metrics.num.samples int 2 1..
metrics.recording.level string INFO
metrics.sample.window.ms long 30000 1..
min.insync.replicas int 1 1..
node.id int -1
num.io.threads int 8 1..
num.network.threads int 3 1..
num.partitions int 1 1..
num.recovery.threads.per.data.dir int 1 1..
num.replica.alter.log.dirs.threads int null
num.replica.fetchers int 1
offset.metadata.max.bytes int 4096
offsets.commit.required.acks short -1
offsets.commit.timeout.ms int 5000 1..
offsets.load.buffer.size int 5242880 1..
offsets.retention.check.interval.ms long 600000 1..
offsets.retention.minutes int 10080 1..
offsets.topic.compression.codec int 0
offsets.topic.num.partitions int 50 1..
offsets.topic.replication.factor short 3 1..
offsets.topic.segment.bytes int 104857600 1..
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding
password.encoder.iterations int 4096 1024..
password.encoder.key.length int 128 8..
password.encoder.keyfactory.algorithm string null
password.encoder.old.secret password null
password.encoder.secret password null
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
process.roles list "" in broker|controller
producer.id.expiration.check.interval.ms int 600000 1..
producer.id.expiration.ms int 86400000 1..
producer.purgatory.purge.interval.requests int 1000
queued.max.request.bytes long -1
queued.max.requests int 500 1..
quota.window.num int 11 1..
quota.window.size.seconds int 1 1..
remote.fetch.max.wait.ms int 500 1..
remote.log.index.file.cache.total.size.bytes long 1073741824 1..
remote.log.manager.copier.thread.pool.size int -1 -1_or_1..
remote.log.manager.copy.max.bytes.per.second long max 1..
remote.log.manager.copy.quota.window.num int 11 1..
remote.log.manager.copy.quota.window.size.seconds int 1 1..
remote.log.manager.expiration.thread.pool.size int -1 -1_or_1..
remote.log.manager.fetch.max.bytes.per.second long max 1..
remote.log.manager.fetch.quota.window.num int 11 1..
remote.log.manager.fetch.quota.window.size.seconds int 1 1..
remote.log.manager.task.interval.ms long 30000 1..
remote.log.manager.task.retry.backoff.max.ms long 30000 1..
remote.log.manager.task.retry.backoff.ms long 500 1..
remote.log.manager.task.retry.jitter double 0.2 0..0.5
remote.log.manager.thread.pool.size int 10 1..
remote.log.metadata.custom.metadata.max.bytes int 128 0..
remote.log.metadata.manager.class.name string org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager non_empty
remote.log.metadata.manager.class.path string null
remote.log.metadata.manager.impl.prefix string rlmm.config. non_empty
remote.log.metadata.manager.listener.name string null non_empty
remote.log.reader.max.pending.tasks int 100 1..
remote.log.reader.threads int 10 1..
remote.log.storage.manager.class.name string null non_empty
remote.log.storage.manager.class.path string null
remote.log.storage.manager.impl.prefix string rsm.config. non_empty
remote.log.storage.system.enable boolean false
replica.fetch.backoff.ms int 1000 0..
replica.fetch.max.bytes int 1048576 0..
replica.fetch.min.bytes int 1
replica.fetch.response.max.bytes int 10485760 0..
replica.fetch.wait.max.ms int 500
replica.high.watermark.checkpoint.interval.ms long 5000
replica.lag.time.max.ms long 30000
replica.selector.class string null
replica.socket.receive.buffer.bytes int 65536
replica.socket.timeout.ms int 30000
replication.quota.window.num int 11 1..
replication.quota.window.size.seconds int 1 1..
request.timeout.ms int 30000
reserved.broker.max.id int 1000 0..
sasl.client.callback.handler.class class null
sasl.enabled.mechanisms list GSSAPI
sasl.jaas.config password null
sasl.kerberos.kinit.cmd string /usr/bin/kinit
sasl.kerberos.min.time.before.relogin long 60000
sasl.kerberos.principal.to.local.rules list DEFAULT
sasl.kerberos.service.name string null
sasl.kerberos.ticket.renew.jitter double 0.05
sasl.kerberos.ticket.renew.window.factor double 0.8
sasl.login.callback.handler.class class null
sasl.login.class class null
sasl.login.connect.timeout.ms int null
sasl.login.read.timeout.ms int null
sasl.login.refresh.buffer.seconds short 300
sasl.login.refresh.min.period.seconds short 60
sasl.login.refresh.window.factor double 0.8
sasl.login.refresh.window.jitter double 0.05
sasl.login.retry.backoff.max.ms long 10000
sasl.login.retry.backoff.ms long 100
sasl.mechanism.controller.protocol string GSSAPI
sasl.mechanism.inter.broker.protocol string GSSAPI
sasl.oauthbearer.clock.skew.seconds int 30
sasl.oauthbearer.expected.audience list null
sasl.oauthbearer.expected.issuer string null
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100
sasl.oauthbearer.jwks.endpoint.url string null
sasl.oauthbearer.scope.claim.name string scope
sasl.oauthbearer.sub.claim.name string sub
sasl.oauthbearer.token.endpoint.url string null
sasl.server.callback.handler.class class null
sasl.server.max.receive.size int 524288
security.inter.broker.protocol string PLAINTEXT in PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL
security.providers string null
server.max.startup.time.ms long max 0..
socket.connection.setup.timeout.max.ms long 30000
socket.connection.setup.timeout.ms long 10000
socket.listen.backlog.size int 50 1..
socket.receive.buffer.bytes int 102400
socket.request.max.bytes int 104857600 1..
socket.send.buffer.bytes int 102400
ssl.allow.dn.changes boolean false
ssl.allow.san.changes boolean false
ssl.cipher.suites list ""
ssl.client.auth string none in required|requested|none
ssl.enabled.protocols list TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm string https
ssl.engine.factory.class class null
ssl.key.password password null
ssl.keymanager.algorithm string SunX509
ssl.keystore.certificate.chain password null
ssl.keystore.key password null
ssl.keystore.location string null
ssl.keystore.password password null
ssl.keystore.type string JKS
ssl.principal.mapping.rules string DEFAULT
ssl.protocol string TLSv1.3
ssl.provider string null
ssl.secure.random.implementation string null
ssl.trustmanager.algorithm string PKIX
ssl.truststore.certificates password null
ssl.truststore.location string null
ssl.truststore.password password null
ssl.truststore.type string JKS
telemetry.max.bytes int 1048576 1..
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1..
transaction.max.timeout.ms int 900000 1..
transaction.partition.verification.enable boolean true
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 1..
transaction.state.log.load.buffer.size int 5242880 1..
transaction.state.log.min.isr int 2 1..
transaction.state.log.num.partitions int 50 1..
transaction.state.log.replication.factor short 3 1..
transaction.state.log.segment.bytes int 104857600 1..
transactional.id.expiration.ms int 604800000 1..
unclean.leader.election.enable boolean false
unclean.leader.election.interval.ms long 300000 1..
unstable.api.versions.enable boolean false
unstable.feature.versions.enable boolean false
zookeeper.clientCnxnSocket string null
zookeeper.connect string null
zookeeper.connection.timeout.ms int null
zookeeper.max.in.flight.requests int 10 1..
zookeeper.metadata.migration.enable boolean false
zookeeper.metadata.migration.min.batch.size int 200 1..
zookeeper.session.timeout.ms int 18000
zookeeper.set.acl boolean false
zookeeper.ssl.cipher.suites list null
zookeeper.ssl.client.enable boolean false
zookeeper.ssl.crl.enable boolean false
zookeeper.ssl.enabled.protocols list null
zookeeper.ssl.endpoint.identification.algorithm string HTTPS
zookeeper.ssl.keystore.location string null
zookeeper.ssl.keystore.password password null
zookeeper.ssl.keystore.type string null
zookeeper.ssl.ocsp.enable boolean false
zookeeper.ssl.protocol string TLSv1.2
zookeeper.ssl.truststore.location string null
zookeeper.ssl.truststore.password password null
zookeeper.ssl.truststore.type string null
""")  # noqa: E501 - one line a key

INTERNAL_KEYS: Final = frozenset(
    (
        "group.consumer.migration.policy",
        "group.coordinator.new.enable",
        "group.share.enable",
        "log.initial.task.delay.ms",
        "metadata.log.segment.min.bytes",
        "producer.id.expiration.check.interval.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "server.max.startup.time.ms",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
        "zookeeper.metadata.migration.min.batch.size",
    )
)
"""Clients see these only where the file sets them."""
