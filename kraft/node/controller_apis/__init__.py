"""The APIs of the active controller: from messages to controller requests and back.

:mod:`.table` lists every API with its function, :mod:`.call` is what such a function gets.  One
module per subject: :mod:`.cluster` (brokers), :mod:`.topics`, :mod:`.topic_deletion`,
:mod:`.partitions`, :mod:`.configs`, :mod:`.clients` (quotas, SCRAM), :mod:`.acls`, :mod:`.tokens`,
:mod:`.describe_cluster`, :mod:`.describe_configs`, :mod:`.voters`.  :mod:`.envelope` unpacks what a
broker forwards.

A function checks rights, makes a request value of ``kraft.controller``, asks the
controller, and writes the answer into the message.  What must not be done here: decide, or answer
before the controller says that the records are committed.

Source: Kafka ``ControllerApis``.
"""
