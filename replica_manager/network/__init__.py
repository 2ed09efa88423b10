"""Sockets: what a broker or a quorum node listens on, and its links to other brokers.

The way of a connection:

1. :mod:`.listener` accepts it (:mod:`.listening_sockets`; :mod:`.connection_quotas` and
   :mod:`.connection_rates` say whether and when);
2. :mod:`.listener_authenticator` says whether TLS and SASL come first;
3. :mod:`.connection` cuts frames out of the stream, one request at a time
   (:mod:`.request_memory` bounds them), and sends the responses; :mod:`.hang_ups` notices that a
   client has gone.

:mod:`.broker_links` are this broker's connections to others.

May import ``quotas``, ``replication``, ``security``, ``log``, configuration and ``zkcontroller``.

What must not be done here: know an API.  What a frame means is said by ``server``, or by
``quorum`` on a quorum node.
"""
