"""Configuration: files and tables of keys, and what is made of them.

:mod:`.properties` reads a file, :mod:`.environment` the variables of a container;
:mod:`.config_keys` is what a key is and :mod:`.key_effects` what it may do here; a row of
:mod:`.broker_keys` or :mod:`.topic_keys` says both.  :mod:`.dynamic_keys` are those that may change
while a broker runs; :mod:`.key_documentation` is how they are described.
:mod:`.config` is the checked configuration of a broker, with its :mod:`.listeners`;
:mod:`.reconfiguration` is a change of it.  :mod:`.meta_properties` is the file that tells to which
broker and cluster a log directory belongs.

May import ``zkcontroller`` and the modules beside this package.

What must not be done here: accept a configuration key without a row in a table.

Source: Kafka ``KafkaConfig``, ``LogConfig``, ``DynamicBrokerConfig``, ``MetaProperties``.
"""
