"""ZooKeeper: znodes as values, requests as values, and the session that sends them.

In this order:

1. :mod:`.znodes`: the catalogue of every znode of a Kafka 3.9 cluster.  The codecs are in
   :mod:`.broker_znodes`, :mod:`.topic_znodes`, :mod:`.cluster_znodes`, :mod:`.admin_znodes`,
   :mod:`.config_znodes`, :mod:`.kafka_acl_znodes` and :mod:`.delegation_token_znodes`.
2. :mod:`.requests`: the requests to ZooKeeper and their results, as values.
3. :mod:`.read_plan` and :mod:`.write_plan`: a bulk request as a series of packets, without a
   socket; :mod:`.jute` encodes and decodes them.
4. :mod:`.session` (what callers use), :mod:`.session_life` (expiry), :mod:`.watch_table`;
   :mod:`.session_router` (calls the part of the process that a watch concerns).
5. :mod:`.connection`: the only module that imports kazoo.
6. :mod:`.embedded` and :mod:`.container`: servers for demonstrations and tests.

What must not be done here: give a malformed znode a default value (raise ``ZnodeCorrupt``); write
as a controller without a fence (``FencedBatch``); call ``perform`` in one of kazoo's threads; use
kazoo outside of :mod:`.connection`.
"""
