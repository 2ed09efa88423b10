"""Configurations: what a client reads and alters, of brokers, topics and loggers.

:mod:`.config_entries` and :mod:`.config_rows` are what DescribeConfigs shows,
:mod:`.config_responses` its responses; :mod:`.altered_resources` is what an alteration answers;
:mod:`.key_changes` checks a change,
:mod:`.config_alteration` carries it out; :mod:`.reconfiguring` asks the running broker whether it
can, :mod:`.entity_configs` are the znodes, :mod:`.log_levels` the loggers.
"""
