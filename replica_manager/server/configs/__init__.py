"""Configurations of brokers, topics and loggers that clients read and change.

* DescribeConfigs: :mod:`.config_entries` and :mod:`.config_rows` make the entries,
  :mod:`.config_responses` the response.
* AlterConfigs and IncrementalAlterConfigs: :mod:`.key_changes` checks a change,
  :mod:`.reconfiguring` checks it with the running broker, :mod:`.config_alteration` applies it, and
  :mod:`.altered_resources` makes the response.
* :mod:`.entity_configs` reads and writes the znodes, :mod:`.log_levels` the levels of loggers.
"""
