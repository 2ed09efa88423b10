"""Requests to brokers, one module for what belongs together.

Read :mod:`.requests` (opens a connection, finds the controller, bounds the time), then
:mod:`.versions`: each request is built in one version and translated for a broker that knows
another.  :mod:`.target` names the cluster of a write and compares cluster ids;
:mod:`.metrics_page` reads what a broker serves by HTTP.

asyncio and kio are imported with these modules, so verbs import them when they run.  May import
``znodes``, ``values`` and ``console``.  What must not be done here: print; decide what a verb does
with a response.
"""
