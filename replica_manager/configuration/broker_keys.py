"""Every key of a Kafka 3.9 broker, in one row each: its type, default, rule and effect here.

Some defaults are Java classes of Kafka (assignors, principal builder, remote log metadata manager).
Their names are shown to clients as in Kafka, but no such class is loaded here.

Source: Kafka 3.9.1 ``KafkaConfig.configDef``.
"""

from __future__ import annotations

from typing import Final

from replica_manager.configuration.key_effects import read_rows

BROKER_KEYS, BROKER_EFFECTS = read_rows("""
advertised.listeners string null | effective configuration.listeners
alter.config.policy.class.name class null | refused no value: Java policies cannot be loaded
alter.log.dirs.replication.quota.window.num int 11 1.. | warned the rate of moves is kept from one batch to the next, without a window
alter.log.dirs.replication.quota.window.size.seconds int 1 1.. | warned the rate of moves is kept from one batch to the next, without a window
authorizer.class.name string "" | effective security.settings
auto.create.topics.enable boolean true | effective server.handlers.metadata
auto.include.jmx.reporter boolean true | warned metrics are served over HTTP, and no Java classes are loaded
auto.leader.rebalance.enable boolean true | effective broker.broker_settings
background.threads int 10 1.. | effective broker.storage
broker.heartbeat.interval.ms int 2000 | warned only a KRaft cluster has a use for it
broker.id int -1 | effective configuration.config
broker.id.generation.enable boolean true | effective broker.broker_identity
broker.rack string null | effective broker.zookeeper_metadata
broker.session.timeout.ms int 9000 | warned only a KRaft cluster has a use for it
client.quota.callback.class class null | refused no value: Java callbacks cannot be loaded
compression.gzip.level int -1 gzip_level | effective log.log_config
compression.lz4.level int 9 1..17 | effective log.log_config
compression.type string producer in uncompressed|zstd|lz4|snappy|gzip|producer | effective log.log_config
compression.zstd.level int 3 -131072..22 | effective log.log_config
connection.failed.authentication.delay.ms int 100 0.. | effective security.settings
connections.max.idle.ms long 600000 | effective broker.broker_settings
connections.max.reauth.ms long 0 | effective security.settings
control.plane.listener.name string null | effective configuration.listeners
controlled.shutdown.enable boolean true | effective broker.broker_server
controlled.shutdown.max.retries int 3 | effective broker.controlled_shutdown
controlled.shutdown.retry.backoff.ms long 5000 | effective broker.controlled_shutdown
controller.listener.names string null | refused no value: it must be empty when not running in KRaft mode
controller.quorum.append.linger.ms int 25 | warned only a KRaft cluster has a use for it
controller.quorum.bootstrap.servers list "" | warned only a KRaft cluster has a use for it
controller.quorum.election.backoff.max.ms int 1000 | warned only a KRaft cluster has a use for it
controller.quorum.election.timeout.ms int 1000 | warned only a KRaft cluster has a use for it
controller.quorum.fetch.timeout.ms int 2000 | warned only a KRaft cluster has a use for it
controller.quorum.request.timeout.ms int 2000 | warned only a KRaft cluster has a use for it
controller.quorum.retry.backoff.ms int 20 | warned only a KRaft cluster has a use for it
controller.quorum.voters list "" | warned only a KRaft cluster has a use for it
controller.quota.window.num int 11 1.. | effective broker.broker_quotas
controller.quota.window.size.seconds int 1 1.. | effective broker.broker_quotas
controller.socket.timeout.ms int 30000 | effective broker.zookeeper_metadata
create.topic.policy.class.name class null | refused no value: Java policies cannot be loaded
default.replication.factor int 1 | effective server.topics.topic_admin
delegation.token.expiry.check.interval.ms long 3600000 1.. | effective broker.zookeeper_metadata
delegation.token.expiry.time.ms long 86400000 1.. | effective security.delegation_tokens
delegation.token.master.key password null | effective security.delegation_tokens
delegation.token.max.lifetime.ms long 604800000 1.. | effective security.delegation_tokens
delegation.token.secret.key password null | effective security.delegation_tokens
delete.records.purgatory.purge.interval.requests int 1 | warned requests that wait leave nothing behind that has to be purged
delete.topic.enable boolean true | effective broker.broker_settings
early.start.listeners string null | warned only a KRaft cluster has a use for it
eligible.leader.replicas.enable boolean false | warned only a KRaft cluster has a use for it
fetch.max.bytes int 57671680 1024.. | effective server.handlers.fetch
fetch.purgatory.purge.interval.requests int 1000 | warned requests that wait leave nothing behind that has to be purged
group.consumer.assignors list org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor | warned only the classic group protocol is there
group.consumer.heartbeat.interval.ms int 5000 1.. | warned only the classic group protocol is there
group.consumer.max.heartbeat.interval.ms int 15000 1.. | warned only the classic group protocol is there
group.consumer.max.session.timeout.ms int 60000 1.. | warned only the classic group protocol is there
group.consumer.max.size int 2147483647 1.. | warned only the classic group protocol is there
group.consumer.migration.policy string disabled ignore_case DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL | warned only the classic group protocol is there
group.consumer.min.heartbeat.interval.ms int 5000 1.. | warned only the classic group protocol is there
group.consumer.min.session.timeout.ms int 45000 1.. | warned only the classic group protocol is there
group.consumer.session.timeout.ms int 45000 1.. | warned only the classic group protocol is there
group.coordinator.append.linger.ms int 10 0.. | warned only the classic group protocol is there
group.coordinator.new.enable boolean false | warned only the classic group protocol is there
group.coordinator.rebalance.protocols list classic in consumer|classic|share|unknown | warned only the classic group protocol is there
group.coordinator.threads int 1 1.. | warned only the classic group protocol is there
group.initial.rebalance.delay.ms int 3000 | effective coordinators.group_settings
group.max.session.timeout.ms int 1800000 | effective coordinators.group_settings
group.max.size int 2147483647 1.. | effective coordinators.group_settings
group.min.session.timeout.ms int 6000 | effective coordinators.group_settings
group.share.delivery.count.limit int 5 2..10 | warned only the classic group protocol is there
group.share.enable boolean false | warned only the classic group protocol is there
group.share.heartbeat.interval.ms int 5000 1.. | warned only the classic group protocol is there
group.share.max.groups short 10 1..100 | warned only the classic group protocol is there
group.share.max.heartbeat.interval.ms int 15000 1.. | warned only the classic group protocol is there
group.share.max.record.lock.duration.ms int 60000 30000..3600000 | warned only the classic group protocol is there
group.share.max.session.timeout.ms int 60000 1.. | warned only the classic group protocol is there
group.share.max.size short 200 10..1000 | warned only the classic group protocol is there
group.share.min.heartbeat.interval.ms int 5000 1.. | warned only the classic group protocol is there
group.share.min.record.lock.duration.ms int 15000 1000..30000 | warned only the classic group protocol is there
group.share.min.session.timeout.ms int 45000 1.. | warned only the classic group protocol is there
group.share.partition.max.record.locks int 200 100..10000 | warned only the classic group protocol is there
group.share.record.lock.duration.ms int 30000 1000..60000 | warned only the classic group protocol is there
group.share.session.timeout.ms int 45000 1.. | warned only the classic group protocol is there
initial.broker.registration.timeout.ms int 60000 | warned only a KRaft cluster has a use for it
inter.broker.listener.name string null | effective configuration.listeners
inter.broker.protocol.version string 3.9-IV0 version | effective configuration.config
kafka.metrics.polling.interval.secs int 10 1.. | warned metrics are served over HTTP, and no Java classes are loaded
kafka.metrics.reporters list "" | warned metrics are served over HTTP, and no Java classes are loaded
leader.imbalance.check.interval.seconds long 300 1.. | effective broker.broker_settings
leader.imbalance.per.broker.percentage int 10 | effective broker.broker_settings
listener.security.protocol.map string SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT | effective configuration.listeners
listeners string PLAINTEXT://:9092 | effective configuration.listeners
log.cleaner.backoff.ms long 15000 0.. | effective broker.storage
log.cleaner.dedupe.buffer.size long 134217728 | effective broker.storage
log.cleaner.delete.retention.ms long 86400000 0.. | effective log.log_config
log.cleaner.enable boolean true | effective broker.storage
log.cleaner.io.buffer.load.factor double 0.9 | warned one log is compacted at a time, with buffers of its own
log.cleaner.io.buffer.size int 524288 0.. | warned one log is compacted at a time, with buffers of its own
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 | warned one log is compacted at a time, with buffers of its own
log.cleaner.max.compaction.lag.ms long max 1.. | effective log.log_config
log.cleaner.min.cleanable.ratio double 0.5 0..1 | effective log.log_config
log.cleaner.min.compaction.lag.ms long 0 0.. | effective log.log_config
log.cleaner.threads int 1 0.. | warned one log is compacted at a time, with buffers of its own
log.cleanup.policy list delete in compact|delete | effective log.log_config
log.dir string /tmp/kafka-logs | effective configuration.config
log.dir.failure.timeout.ms long 30000 1.. | warned only a KRaft cluster has a use for it
log.dirs string null | effective broker.broker_identity
log.flush.interval.messages long max 1.. | effective log.log_config
log.flush.interval.ms long null | effective log.log_config
log.flush.offset.checkpoint.interval.ms int 60000 0.. | effective broker.storage
log.flush.scheduler.interval.ms long max | effective log.log_config
log.flush.start.offset.checkpoint.interval.ms int 60000 0.. | effective broker.storage
log.index.interval.bytes int 4096 0.. | effective log.log_config
log.index.size.max.bytes int 10485760 4.. | effective log.log_config
log.initial.task.delay.ms long 30000 0.. | effective broker.storage
log.local.retention.bytes long -2 -2.. | warned there is no tiered storage
log.local.retention.ms long -2 -2.. | warned there is no tiered storage
log.message.downconversion.enable boolean true | effective log.log_config
log.message.format.version string 3.0-IV1 version | warned since 3.0 Kafka does not heed it either; below, 0.11 or newer
log.message.timestamp.after.max.ms long max 0.. | effective log.log_config
log.message.timestamp.before.max.ms long max 0.. | effective log.log_config
log.message.timestamp.difference.max.ms long max 0.. | effective log.log_config
log.message.timestamp.type string CreateTime in CreateTime|LogAppendTime | effective log.log_config
log.preallocate boolean false | warned files grow as they are written
log.retention.bytes long -1 | effective log.log_config
log.retention.check.interval.ms long 300000 1.. | effective broker.storage
log.retention.hours int 168 | effective log.log_config
log.retention.minutes int null | effective log.log_config
log.retention.ms long null | effective log.log_config
log.roll.hours int 168 1.. | effective log.log_config
log.roll.jitter.hours int 0 0.. | effective log.log_config
log.roll.jitter.ms long null | effective log.log_config
log.roll.ms long null | effective log.log_config
log.segment.bytes int 1073741824 14.. | effective log.log_config
log.segment.delete.delay.ms long 60000 0.. | effective log.log_config
max.connection.creation.rate int 2147483647 0.. | effective broker.broker_settings
max.connections int 2147483647 0.. | effective broker.broker_settings
max.connections.per.ip int 2147483647 0.. | effective broker.broker_settings
max.connections.per.ip.overrides string "" | effective broker.broker_settings
max.incremental.fetch.session.cache.slots int 1000 0.. | effective broker.broker_records
max.request.partition.size.limit int 2000 1.. | warned only a request of a KRaft cluster has this limit
message.max.bytes int 1048588 0.. | effective log.log_config
metadata.log.dir string null | warned only a KRaft cluster has a use for it
metadata.log.max.record.bytes.between.snapshots long 20971520 1.. | warned only a KRaft cluster has a use for it
metadata.log.max.snapshot.interval.ms long 3600000 0.. | warned only a KRaft cluster has a use for it
metadata.log.segment.bytes int 1073741824 12.. | warned only a KRaft cluster has a use for it
metadata.log.segment.min.bytes int 8388608 12.. | warned only a KRaft cluster has a use for it
metadata.log.segment.ms long 604800000 | warned only a KRaft cluster has a use for it
metadata.max.idle.interval.ms int 500 0.. | warned only a KRaft cluster has a use for it
metadata.max.retention.bytes long 104857600 | warned only a KRaft cluster has a use for it
metadata.max.retention.ms long 604800000 | warned only a KRaft cluster has a use for it
metric.reporters list "" | warned metrics are served over HTTP, and no Java classes are loaded
metrics.num.samples int 2 1.. | effective coordinators.group_settings
metrics.recording.level string INFO | warned metrics are served over HTTP, and no Java classes are loaded
metrics.sample.window.ms long 30000 1.. | effective coordinators.group_settings
min.insync.replicas int 1 1.. | effective log.log_config
node.id int -1 | effective configuration.meta_properties
num.io.threads int 8 1.. | effective broker.broker_server
num.network.threads int 3 1.. | warned one event loop serves all connections
num.partitions int 1 1.. | effective server.topics.topic_admin
num.recovery.threads.per.data.dir int 1 1.. | effective broker.storage
num.replica.alter.log.dirs.threads int null | effective broker.broker_records
num.replica.fetchers int 1 | effective broker.broker_records
offset.metadata.max.bytes int 4096 | effective coordinators.group_settings
offsets.commit.required.acks short -1 | effective coordinators.group_settings
offsets.commit.timeout.ms int 5000 1.. | effective coordinators.group_settings
offsets.load.buffer.size int 5242880 1.. | effective coordinators.group_settings
offsets.retention.check.interval.ms long 600000 1.. | effective coordinators.group_settings
offsets.retention.minutes int 10080 1.. | effective coordinators.group_settings
offsets.topic.compression.codec int 0 | effective coordinators.group_settings
offsets.topic.num.partitions int 50 1.. | effective server.topics.auto_creation
offsets.topic.replication.factor short 3 1.. | effective server.topics.auto_creation
offsets.topic.segment.bytes int 104857600 1.. | effective server.topics.auto_creation
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding | effective security.password_encoder
password.encoder.iterations int 4096 1024.. | effective security.password_encoder
password.encoder.key.length int 128 8.. | effective security.password_encoder
password.encoder.keyfactory.algorithm string null | effective security.password_encoder
password.encoder.old.secret password null | effective security.dynamic_passwords
password.encoder.secret password null | effective security.dynamic_passwords
principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder | refused no value: Java principal builders cannot be loaded
process.roles list "" in broker|controller | refused no value: this is a ZooKeeper-mode broker
producer.id.expiration.check.interval.ms int 600000 1.. | effective broker.storage
producer.id.expiration.ms int 86400000 1.. | effective broker.storage
producer.purgatory.purge.interval.requests int 1000 | warned requests that wait leave nothing behind that has to be purged
queued.max.request.bytes long -1 | effective broker.broker_settings
queued.max.requests int 500 1.. | warned a connection has one request at a time
quota.window.num int 11 1.. | effective broker.broker_quotas
quota.window.size.seconds int 1 1.. | effective broker.broker_quotas
remote.fetch.max.wait.ms int 500 1.. | warned there is no tiered storage
remote.log.index.file.cache.total.size.bytes long 1073741824 1.. | warned there is no tiered storage
remote.log.manager.copier.thread.pool.size int -1 -1_or_1.. | warned there is no tiered storage
remote.log.manager.copy.max.bytes.per.second long max 1.. | warned there is no tiered storage
remote.log.manager.copy.quota.window.num int 11 1.. | warned there is no tiered storage
remote.log.manager.copy.quota.window.size.seconds int 1 1.. | warned there is no tiered storage
remote.log.manager.expiration.thread.pool.size int -1 -1_or_1.. | warned there is no tiered storage
remote.log.manager.fetch.max.bytes.per.second long max 1.. | warned there is no tiered storage
remote.log.manager.fetch.quota.window.num int 11 1.. | warned there is no tiered storage
remote.log.manager.fetch.quota.window.size.seconds int 1 1.. | warned there is no tiered storage
remote.log.manager.task.interval.ms long 30000 1.. | warned there is no tiered storage
remote.log.manager.task.retry.backoff.max.ms long 30000 1.. | warned there is no tiered storage
remote.log.manager.task.retry.backoff.ms long 500 1.. | warned there is no tiered storage
remote.log.manager.task.retry.jitter double 0.2 0..0.5 | warned there is no tiered storage
remote.log.manager.thread.pool.size int 10 1.. | warned there is no tiered storage
remote.log.metadata.custom.metadata.max.bytes int 128 0.. | warned there is no tiered storage
remote.log.metadata.manager.class.name string org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager non_empty | warned there is no tiered storage
remote.log.metadata.manager.class.path string null | warned there is no tiered storage
remote.log.metadata.manager.impl.prefix string rlmm.config. non_empty | warned there is no tiered storage
remote.log.metadata.manager.listener.name string null non_empty | warned there is no tiered storage
remote.log.reader.max.pending.tasks int 100 1.. | warned there is no tiered storage
remote.log.reader.threads int 10 1.. | warned there is no tiered storage
remote.log.storage.manager.class.name string null non_empty | warned there is no tiered storage
remote.log.storage.manager.class.path string null | warned there is no tiered storage
remote.log.storage.manager.impl.prefix string rsm.config. non_empty | warned there is no tiered storage
remote.log.storage.system.enable boolean false | refused false: tiered storage is not supported
replica.fetch.backoff.ms int 1000 0.. | effective replication.replication_tasks
replica.fetch.max.bytes int 1048576 0.. | effective broker.broker_records
replica.fetch.min.bytes int 1 | effective replication.replication_tasks
replica.fetch.response.max.bytes int 10485760 0.. | effective replication.replication_tasks
replica.fetch.wait.max.ms int 500 | effective replication.replication_tasks
replica.high.watermark.checkpoint.interval.ms long 5000 | effective broker.storage
replica.lag.time.max.ms long 30000 | effective broker.broker_records
replica.selector.class string null | effective server.handlers.fetch
replica.socket.receive.buffer.bytes int 65536 | warned the operating system sizes that buffer
replica.socket.timeout.ms int 30000 | effective replication.replication_tasks
replication.quota.window.num int 11 1.. | effective broker.broker_server
replication.quota.window.size.seconds int 1 1.. | effective broker.broker_server
request.timeout.ms int 30000 | effective broker.broker_settings
reserved.broker.max.id int 1000 0.. | effective broker.broker_identity
sasl.client.callback.handler.class class null | refused_when_secured no value: Java callbacks cannot be loaded
sasl.enabled.mechanisms list GSSAPI | effective security.settings
sasl.jaas.config password null | effective security.client_properties
sasl.kerberos.kinit.cmd string /usr/bin/kinit | warned Kerberos is not there
sasl.kerberos.min.time.before.relogin long 60000 | warned Kerberos is not there
sasl.kerberos.principal.to.local.rules list DEFAULT | warned Kerberos is not there
sasl.kerberos.service.name string null | warned Kerberos is not there
sasl.kerberos.ticket.renew.jitter double 0.05 | warned Kerberos is not there
sasl.kerberos.ticket.renew.window.factor double 0.8 | warned Kerberos is not there
sasl.login.callback.handler.class class null | refused_when_secured no value, or Kafka's handler of OAUTHBEARER under its prefix: other Java callbacks cannot be loaded
sasl.login.class class null | refused_when_secured no value: Java logins cannot be loaded
sasl.login.connect.timeout.ms int null | warned sasl.login.read.timeout.ms bounds the connecting, too
sasl.login.read.timeout.ms int null | effective security.oauth_settings
sasl.login.refresh.buffer.seconds short 300 | warned a token is shown for four fifths of its life
sasl.login.refresh.min.period.seconds short 60 | warned a token is shown for four fifths of its life
sasl.login.refresh.window.factor double 0.8 | warned a token is shown for four fifths of its life
sasl.login.refresh.window.jitter double 0.05 | warned a token is shown for four fifths of its life
sasl.login.retry.backoff.max.ms long 10000 | effective security.oauth_settings
sasl.login.retry.backoff.ms long 100 | effective security.oauth_settings
sasl.mechanism.controller.protocol string GSSAPI | warned only a KRaft cluster has a use for it
sasl.mechanism.inter.broker.protocol string GSSAPI | effective security.settings
sasl.oauthbearer.clock.skew.seconds int 30 | effective security.oauth_settings
sasl.oauthbearer.expected.audience list null | effective security.oauth_settings
sasl.oauthbearer.expected.issuer string null | effective security.oauth_settings
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 | effective security.oauth_settings
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 | effective security.oauth_settings
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 | effective security.oauth_settings
sasl.oauthbearer.jwks.endpoint.url string null | effective security.oauth_settings
sasl.oauthbearer.scope.claim.name string scope | effective security.oauth_settings
sasl.oauthbearer.sub.claim.name string sub | effective security.oauth_settings
sasl.oauthbearer.token.endpoint.url string null | effective security.oauth_settings
sasl.server.callback.handler.class class null | refused_when_secured no value, or Kafka's handler of OAUTHBEARER under its prefix: other Java callbacks cannot be loaded
sasl.server.max.receive.size int 524288 | effective security.settings
security.inter.broker.protocol string PLAINTEXT in PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL | effective configuration.config
security.providers string null | warned TLS is OpenSSL's
server.max.startup.time.ms long max 0.. | warned only a KRaft cluster has a use for it
socket.connection.setup.timeout.max.ms long 30000 | effective network.broker_links
socket.connection.setup.timeout.ms long 10000 | effective network.broker_links
socket.listen.backlog.size int 50 1.. | effective broker.broker_settings
socket.receive.buffer.bytes int 102400 | effective broker.broker_settings
socket.request.max.bytes int 104857600 1.. | effective broker.broker_settings
socket.send.buffer.bytes int 102400 | effective broker.broker_settings
ssl.allow.dn.changes boolean false | effective security.dynamic_tls
ssl.allow.san.changes boolean false | effective security.dynamic_tls
ssl.cipher.suites list "" | refused_when_secured no value: OpenSSL's own choice of suites is used
ssl.client.auth string none in required|requested|none | effective security.settings
ssl.enabled.protocols list TLSv1.2,TLSv1.3 | effective security.tls
ssl.endpoint.identification.algorithm string https | effective security.tls
ssl.engine.factory.class class null | refused_when_secured no value: Java factories cannot be loaded
ssl.key.password password null | effective security.key_material
ssl.keymanager.algorithm string SunX509 | warned TLS is OpenSSL's
ssl.keystore.certificate.chain password null | effective security.key_material
ssl.keystore.key password null | effective security.key_material
ssl.keystore.location string null | effective security.key_material
ssl.keystore.password password null | effective security.key_material
ssl.keystore.type string JKS | effective security.tls
ssl.principal.mapping.rules string DEFAULT | effective security.principals
ssl.protocol string TLSv1.3 | warned TLS is OpenSSL's
ssl.provider string null | refused_when_secured no value: TLS is OpenSSL's
ssl.secure.random.implementation string null | refused_when_secured no value: random numbers are OpenSSL's
ssl.trustmanager.algorithm string PKIX | warned TLS is OpenSSL's
ssl.truststore.certificates password null | effective security.key_material
ssl.truststore.location string null | effective security.key_material
ssl.truststore.password password null | effective security.key_material
ssl.truststore.type string JKS | effective security.tls
telemetry.max.bytes int 1048576 1.. | warned clients' metrics are not taken
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1.. | effective coordinators.transaction_settings
transaction.max.timeout.ms int 900000 1.. | effective broker.broker_records
transaction.partition.verification.enable boolean true | effective broker.storage
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 1.. | effective coordinators.transaction_settings
transaction.state.log.load.buffer.size int 5242880 1.. | effective coordinators.transaction_settings
transaction.state.log.min.isr int 2 1.. | effective server.topics.auto_creation
transaction.state.log.num.partitions int 50 1.. | effective server.topics.auto_creation
transaction.state.log.replication.factor short 3 1.. | effective server.topics.auto_creation
transaction.state.log.segment.bytes int 104857600 1.. | effective server.topics.auto_creation
transactional.id.expiration.ms int 604800000 1.. | effective coordinators.transaction_settings
unclean.leader.election.enable boolean false | effective log.log_config
unclean.leader.election.interval.ms long 300000 1.. | warned only a KRaft cluster has a use for it
unstable.api.versions.enable boolean false | warned only a KRaft cluster has a use for it
unstable.feature.versions.enable boolean false | warned only a KRaft cluster has a use for it
zookeeper.clientCnxnSocket string null | effective security.zookeeper_tls
zookeeper.connect string null | effective configuration.config
zookeeper.connection.timeout.ms int null | effective configuration.config
zookeeper.max.in.flight.requests int 10 1.. | effective broker.broker_settings
zookeeper.metadata.migration.enable boolean false | refused false: migration to KRaft is not supported
zookeeper.metadata.migration.min.batch.size int 200 1.. | warned there is no migration to KRaft
zookeeper.session.timeout.ms int 18000 | effective broker.zookeeper_metadata
zookeeper.set.acl boolean false | effective broker.broker_settings
zookeeper.ssl.cipher.suites list null | effective security.zookeeper_tls
zookeeper.ssl.client.enable boolean false | effective security.zookeeper_tls
zookeeper.ssl.crl.enable boolean false | effective security.zookeeper_tls
zookeeper.ssl.enabled.protocols list null | effective security.tls
zookeeper.ssl.endpoint.identification.algorithm string HTTPS | effective security.tls
zookeeper.ssl.keystore.location string null | effective security.zookeeper_tls
zookeeper.ssl.keystore.password password null | effective security.zookeeper_tls
zookeeper.ssl.keystore.type string null | effective security.zookeeper_tls
zookeeper.ssl.ocsp.enable boolean false | effective security.zookeeper_tls
zookeeper.ssl.protocol string TLSv1.2 | effective security.zookeeper_tls
zookeeper.ssl.truststore.location string null | effective security.tls
zookeeper.ssl.truststore.password password null | effective security.zookeeper_tls
zookeeper.ssl.truststore.type string null | effective security.zookeeper_tls
""")  # noqa: E501 - one row a key

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
"""Kafka's internal keys: DescribeConfigs shows them only if the file sets them."""
