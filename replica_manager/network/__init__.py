"""Sockets: the listeners of a broker or a quorum node, and a broker's connections to others.

The path of a client's connection:

1. :mod:`.listener` accepts it on one of the :mod:`.listening_sockets`, within the limits of
   :mod:`.connection_quotas` and :mod:`.connection_rates`;
2. :mod:`.listener_authenticator` authenticates it with TLS and SASL, if the listener requires that;
3. :mod:`.connection` reads requests, one frame at a time, and sends the responses;
   :mod:`.request_memory` limits the memory of requests, and :mod:`.hang_ups` detects that a client
   has reset its connection.

:mod:`.broker_links` are this broker's connections to others.

What must not be done here: handle an API.  Frames are handled by ``server``, or by ``kraft/node``
on a quorum node.
"""
