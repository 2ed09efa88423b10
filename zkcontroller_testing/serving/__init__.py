"""The kit by HTTP: what ``zkctl serve`` runs, for tests that are not written in Python.

Read :mod:`.routes` first: one table has every path with the function behind it.  The server
(:mod:`.http_server`), the OpenAPI document and the list of paths in docs/serve.md
(:mod:`.openapi`) are made of that table, so none of them can say what the others do not.
:mod:`.bodies` has what goes in and out, :mod:`.served_clusters` the clusters that run and what
clients call by number (faults, holds, ledgers, watches), :mod:`.refusals` every way to say no, and
:mod:`.command` the life of the process.

What must not be done here: add a verb that the kit does not have; start a process; import another
part of the kit than :mod:`zkcontroller_testing.cluster` offers.  Only :mod:`.bodies`,
:mod:`.http_server` and :mod:`.openapi` know msgspec.
"""
