"""The test kit over HTTP: what ``zkctl serve`` runs, for tests in other languages than Python.

Read :mod:`.routes` first: one table has every path with its function.  The server
(:mod:`.http_server`), the OpenAPI document (:mod:`.openapi`) and the tables of docs/serve.md are
made from it, so they always agree.  :mod:`.verbs` has the functions, :mod:`.served_request` what
they are given, :mod:`.bodies` the classes of bodies and responses, :mod:`.served_clusters` the
running clusters and what clients name by number (faults, holds, ledgers, watches),
:mod:`.refusals` the error responses, and :mod:`.command` starts and ends the server.

What must not be done here: add a verb that the kit does not have; start a process; change a cluster
except through :class:`~zkcontroller_testing.cluster.KafkaCluster` and the objects that it returns.
"""
