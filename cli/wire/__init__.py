"""Requests to brokers, one module for each group of related requests.

Read :mod:`.requests` (opens a connection, finds the controller, limits the time), then
:mod:`.versions`, which translates each request for a broker that knows only an older version.
:mod:`.target` names the cluster of a write and compares cluster ids; :mod:`.metrics_page` reads
the metrics that a broker serves by HTTP.

These modules import asyncio and kio, which is slow, so a verb imports them only when it runs.  May
import ``znodes``, ``values`` and ``console``.  What must not be done here: print; decide what a
verb does with a response.
"""
