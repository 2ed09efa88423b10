"""One module per API, or per few that belong together: a request in, its response out.

Every module that answers an API has the same four names, which
:class:`replica_manager.server.context.Handler` describes:

* ``API_KEY`` and ``VERSIONS``: what is offered to clients, and nothing beyond it;
* ``handle(request, context, broker)``: the response;
* ``refuse(request, context, error)``: the response to a request that failed as a whole.

``control_requests`` has no API of its own: it is what LeaderAndIsr, StopReplica and UpdateMetadata
share.  Read :mod:`.api_versions` (the smallest), :mod:`.produce`, :mod:`.fetch`,
:mod:`.leader_and_isr`.

A new API needs its module here, its import in
:mod:`~replica_manager.server.zookeeper_handlers`, and a test of its rights and of its bytes.

The type of a request is in :mod:`kafka_common.protocol.request_types`: a field that a version lacks
is read by ``field_or``, with its default.

A handler checks the client's rights, then asks a service or the replica manager.  It refuses by a
code in the response or by ``RequestRefused``.

What must not be done here: offer a version that is not answered; keep state between two requests;
catch an exception that :mod:`replica_manager.server.dispatch` maps to a code.
"""
