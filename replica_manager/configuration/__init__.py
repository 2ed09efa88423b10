"""Configuration: files and tables of keys, and what is made of them.

:mod:`.properties` reads a file, :mod:`.environment` the variables of a container;
:mod:`.config_keys` is what a key is, :mod:`.broker_keys` and :mod:`.topic_keys` are the tables,
:mod:`.dynamic_keys` those that may change while a broker runs; :mod:`.key_effects` says what each
does here, :mod:`.key_documentation` how it is described.
:mod:`.config` is the checked configuration of a broker, with its :mod:`.listeners`;
:mod:`.reconfiguration` is a change of it.  :mod:`.meta_properties` is the file that tells to which
broker and cluster a log directory belongs.

May import ``zkcontroller`` and the modules beside this package.

What must not be done here: accept a configuration key without a row in :mod:`.key_effects`.

Source: Kafka ``KafkaConfig``, ``LogConfig``, ``DynamicBrokerConfig``, ``MetaProperties``.
"""
