"""Client quotas: how much a user or client id has used, and how long it must wait.

:mod:`.client_quotas` finds the quota of a client; :mod:`.rate_quotas` (bytes, request time) and
:mod:`.mutation_quotas` (partitions created and deleted) measure its use; :mod:`.quota_managers` is
what a request counts for, with :mod:`.loop_time`, the time that it held the event loop.

May import ``security``, configuration and ``zkcontroller``.

What must not be done here: wait.  A manager says how long; the connection waits.

Source: Kafka ``ClientQuotaManager``, ``ClientRequestQuotaManager``,
``ControllerMutationQuotaManager``.
"""
