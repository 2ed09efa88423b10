"""The incident report: findings as ``report.json``, HTML and Markdown.

:mod:`.assemble` gathers a bounded number of findings into one mapping with stable keys
(docs/history.md), which is the content of ``report.json``.  The other modules are pure functions of
it: :mod:`.verdict` says in words what happened, :mod:`.plots` draws figures, :mod:`.html` and
:mod:`.markdown` write the pages.
"""
