"""The APIs of the active controller: from messages to controller requests and back.

:mod:`.table` lists every API with its function, :mod:`.call` has the arguments of these functions.
One module per subject: :mod:`.cluster` (brokers), :mod:`.topics`, :mod:`.topic_deletion`,
:mod:`.partitions`, :mod:`.configs`, :mod:`.clients` (quotas, SCRAM), :mod:`.acls`, :mod:`.tokens`,
:mod:`.describe_cluster`, :mod:`.describe_configs`, :mod:`.loggers`, :mod:`.sasl`, :mod:`.voters`.
:mod:`.envelope` unpacks what a broker forwards.  :mod:`.refusals` has the texts of authorization
errors, and :mod:`.unhandled` refuses what Kafka's controllers offer but do not handle.

A function checks permissions, makes a request value of ``kraft.controller``, passes it to the
controller, and writes the result into the response.  What must not be done here: decide, or respond
before the controller reports that the records are committed.

Source: Kafka ``ControllerApis``.
"""
