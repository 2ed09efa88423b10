"""The handlers: one module per API, which makes the response to a request.

Every handler module has the same four names, which
:class:`replica_manager.server.context.Handler` describes:

* ``API_KEY`` and ``VERSIONS``: the API and the first and last version that clients may use;
* ``handle(request, context, broker)``: the response;
* ``refuse(request, context, error)``: the response to a request that failed as a whole.

``control_requests`` has no API of its own, but the common parts of LeaderAndIsr, StopReplica and
UpdateMetadata.  Read :mod:`.api_versions` (the smallest), :mod:`.produce`, :mod:`.fetch`,
:mod:`.leader_and_isr` first.

A new API needs its module here, its import in
:mod:`~replica_manager.server.zookeeper_handlers`, and tests of its authorization and its bytes.

The types of requests are in :mod:`kafka_common.protocol.request_types`.  ``field_or`` reads a field
that some versions lack, with a default.

A handler checks the client's rights, then calls a service or the replica manager.  It refuses with
an error code in the response, or raises ``RequestRefused``.

What must not be done here: offer a version that the handler does not support; keep state between
two requests; catch an exception that :mod:`replica_manager.server.dispatch` maps to an error code.
"""
