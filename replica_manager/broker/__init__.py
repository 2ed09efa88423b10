"""A broker, put together from the other packages, and the source of its metadata.

Read :mod:`.broker_server` first: ``BrokerServer.start`` puts everything together in Kafka's order,
into a :mod:`.running_broker`; what was made is stopped by :mod:`.stops`.  There are two halves, and
:mod:`.metadata_source` is the seam between them.

What a broker is: :mod:`.broker_records` (what keeps and serves records), :mod:`.storage` (the
disks) with :mod:`.log_dir_failure_handler`, :mod:`.broker_listeners`, :mod:`.broker_quotas`,
:mod:`.broker_identity` (its id, and the cluster's),
:mod:`.config_changes` (which part follows which configuration), :mod:`.broker_gauges`,
:mod:`.broker_status`.

Where its metadata comes from and goes to: :mod:`.zookeeper_metadata`, which puts together
:mod:`.registration`, :mod:`.dynamic_config`, :mod:`.refresher`, :mod:`.feature_epoch`,
:mod:`.log_dir_events` and :mod:`.controlled_shutdown`.  :mod:`.zookeeper_broker` chooses it;
:mod:`.broker_settings` translates the configuration for both halves.

May import everything of ``replica_manager`` but ``quorum`` and ``__main__``.

What must not be done here: answer a request, or decide what another package decides; name ZooKeeper
or a controller in the half that says what a broker is (an import contract holds it to that).

Source: Kafka ``KafkaServer``.
"""
