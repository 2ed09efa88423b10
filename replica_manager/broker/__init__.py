"""A broker in ZooKeeper mode, put together from the other packages.

Read :mod:`.broker_server` first: ``BrokerServer.start`` puts everything together in Kafka's order.
Its parts: :mod:`.broker_records` (what keeps and serves records), :mod:`.broker_quotas`,
:mod:`.broker_settings` (configuration as it is now), :mod:`.broker_identity` (its id, and the
cluster's), :mod:`.storage` (the disks), :mod:`.broker_gauges`, :mod:`.broker_status`.

What follows ZooKeeper: :mod:`.registration`, :mod:`.dynamic_config`, :mod:`.refresher`,
:mod:`.feature_epoch`; and :mod:`.controlled_shutdown`, the broker's end.

May import everything of ``replica_manager`` but ``quorum`` and ``__main__``.

What must not be done here: answer a request, or decide what another package decides.

Source: Kafka ``KafkaServer``.
"""
