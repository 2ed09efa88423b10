"""What a broker answers: dispatch, the handlers, and the services that handlers call.

The way of a request, which comes from a connection (``network``):

1. :mod:`.dispatch` reads it, finds its handler and encodes the response;
2. :mod:`.handlers` has one module per API; :mod:`.zookeeper_handlers` is the table of them, and
   :mod:`.context` is what each of them gets;
3. :mod:`.throttled_responses` counts it for the client's quotas.

Behind the handlers stand services: the coordinators (``coordinators``), :mod:`.topics`,
:mod:`.configs`, :mod:`.zookeeper_admin`, :mod:`.producer_ids`, :mod:`.authorization`.

May import ``coordinators``, ``network``, ``quotas``, ``replication``, ``security``, ``log``,
configuration and ``zkcontroller``; not ``broker`` or ``quorum``.

What must not be done here: loop over what a client sent without :mod:`.slices`; read a large
request or encode a large response on the event loop (:mod:`.large_responses`); wait for ZooKeeper
or a disk on it (use the executor); decide what replication or a coordinator decides.
"""
