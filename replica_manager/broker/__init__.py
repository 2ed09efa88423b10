"""Assembles a broker from the other packages, and connects it to the source of its metadata.

Read :mod:`.broker_server` first: ``BrokerServer.start`` makes all parts in Kafka's order and puts
them into a :mod:`.running_broker`; :mod:`.stops` stops them.  The package has two halves, and
:mod:`.metadata_source` is the interface between them.

The broker itself: :mod:`.broker_records` (stores and serves records), :mod:`.storage` (the logs)
with :mod:`.log_dir_failure_handler`, :mod:`.broker_listeners`, :mod:`.broker_quotas`,
:mod:`.broker_identity` (its id and its locked log directories), :mod:`.config_changes` (which part
follows which configuration), :mod:`.broker_gauges`, :mod:`.broker_status`.

The source of its metadata: :mod:`.zookeeper_metadata`, which uses :mod:`.registration`,
:mod:`.dynamic_config`, :mod:`.refresher`, :mod:`.feature_epoch`, :mod:`.log_dir_events` and
:mod:`.controlled_shutdown`.  :mod:`.zookeeper_broker` chooses this source;
:mod:`.broker_settings` translates the configuration for both halves.

What must not be done here: handle a request; make a decision of another package; name ZooKeeper or
a controller in the half of the broker itself (an import contract forbids it).

Source: Kafka ``KafkaServer``.
"""
