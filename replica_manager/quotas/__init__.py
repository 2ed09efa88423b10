"""Client quotas: measures the use of a user or client id, and computes throttle times.

:mod:`.client_quotas` finds the quota of a client.  :mod:`.rate_quotas` (bytes, request time) and
:mod:`.mutation_quotas` (partitions created and deleted) measure its use.  :mod:`.quota_managers`
counts a request for all quotas, with its time on the event loop (:mod:`.loop_time`).

What must not be done here: wait.  A manager returns the throttle time, and the connection waits.

Source: Kafka ``ClientQuotaManager``, ``ClientRequestQuotaManager``,
``ControllerMutationQuotaManager``.
"""
