"""Handling of a broker's requests: dispatch, the handlers, and the services that handlers call.

The path of a request from a connection (``network``) to its response:

1. :mod:`.dispatch` decodes the request, calls its handler and encodes the response;
2. :mod:`.handlers` has one module per API; :mod:`.zookeeper_handlers` is the table of them, and
   :mod:`.context` has the arguments of each handler;
3. :mod:`.throttled_responses` counts the request for the client's quotas.

The handlers call services: the coordinators (``coordinators``), :mod:`.topics`, :mod:`.configs`,
:mod:`.zookeeper_admin`, :mod:`.producer_ids`, :mod:`.authorization`.

What must not be done here: loop over a client's list without :mod:`.slices`; decode a large request
or encode a large response on the event loop (:mod:`.large_responses`); wait on the event loop for
ZooKeeper or a disk (use the executor); decide what replication or a coordinator decides.
"""
