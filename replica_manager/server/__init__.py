"""The broker's wire: listeners, connections, dispatch, and the services that handlers call.

The way of a request:

1. :mod:`.listener` accepts (:mod:`.connection_quotas`, :mod:`.connection_rates`);
2. :mod:`.gate` says whether TLS and SASL come first;
3. :mod:`.connection` cuts frames out of the stream (:mod:`.request_memory` bounds them), one
   request at a time;
4. :mod:`.dispatch` reads the request, finds its handler and encodes the answer;
5. :mod:`.handlers` has one module per API; :mod:`.context` is what each of them gets;
6. :mod:`.throttled_answers` counts it for the client's quotas.

Behind the handlers stand services: :mod:`.group_service` and :mod:`.transaction_service` (run the
pure coordinators, by :mod:`.coordinator_run`), :mod:`.topic_admin`, :mod:`.zookeeper_admin`,
:mod:`.config_resources`, :mod:`.quota_managers`, :mod:`.producer_ids`, :mod:`.authorization`.

May import ``transactions``, ``groups``, ``replication``, ``security``, ``log``, configuration and
``zkcontroller``; not ``broker``, ``raft``, ``storage`` or ``registration``.

What must not be done here: loop over what a client sent without :mod:`.slices`; read a large
request or encode a large answer on the event loop (:mod:`.large_answers`); wait for ZooKeeper or a
disk on it (use the executor); decide what replication or a coordinator decides.
"""
