"""Configuration: properties files, tables of keys, and the validated configuration of a broker.

* :mod:`.properties` reads a file, :mod:`.environment` the environment variables of a container.
* :mod:`.broker_keys` and :mod:`.topic_keys` are the tables of keys.  A row has the key's type and
  rules (:mod:`.config_keys`), and its effect in this broker (:mod:`.key_effects`).
* :mod:`.dynamic_keys` has the keys that may change while a broker runs,
  :mod:`.key_documentation` their descriptions.
* :mod:`.config` is the validated configuration of a broker with its :mod:`.listeners`,
  :mod:`.reconfiguration` checks a change of it.
* :mod:`.meta_properties` is the file that names the broker and cluster of a log directory.

What must not be done here: accept a configuration key without a row in a table.

Source: Kafka ``KafkaConfig``, ``LogConfig``, ``DynamicBrokerConfig``, ``MetaProperties``.
"""
