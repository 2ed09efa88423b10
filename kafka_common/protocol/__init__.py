"""Kafka's wire format: converts bytes to values and back, without any socket.

A request passes through these modules: :mod:`.framing` reads its header, :mod:`.api_versions` says
which versions of its API are offered, and :mod:`.messages` turns the body into one of kio's
classes.  :mod:`.wire_guard` checks the body first, because kio's reader trusts its input.
:mod:`.request_types` gives mypy the fields of a request in any version.  The response is written by
``messages.write`` and ``framing.response_header``.

The controller's own requests name too many partitions for one object each: :mod:`.bulk` writes them
as bytes, and :mod:`.control_responses` reads the brokers' responses.  :mod:`.inter_broker_versions`
decides which versions the brokers of a cluster use with each other, :mod:`.error_codes` names the
errors.

For any bytes from a peer, reading returns a value or raises
:class:`~kafka_common.errors.InvalidFrame` and no other exception.

What must not be done here: reserve memory by a length that a peer has only announced.
"""
