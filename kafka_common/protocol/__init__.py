"""Kafka's wire format: bytes to values and back, without a socket in sight.

The way of a request through a broker: :mod:`.framing` cuts it out of the stream and reads its
header, :mod:`.api_versions` says whether its API and version are offered, :mod:`.messages` turns
the body into one of kio's classes, with :mod:`.wire_guard` in front because kio's reader trusts
what it reads.  :mod:`.request_types` tells mypy what is in it, whatever its version.  The response
goes back through ``messages.write`` and ``framing.response_header``.

The controller's own requests are too many for objects: :mod:`.bulk` writes them as bytes, and
:mod:`.control_responses` reads what brokers answer.  :mod:`.inter_broker_versions` decides which
versions the brokers of a cluster use with each other, :mod:`.error_codes` names the errors.

Whatever a peer sends, reading ends in a value or in :class:`~kafka_common.errors.InvalidFrame`.

May import ``model``, ``topic_names`` and ``errors``; not ``zookeeper``.  What must not be done
here: reserve memory by a length that a peer has only announced; raise anything else for bad bytes.
"""
