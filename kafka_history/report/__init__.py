"""The incident report: findings as plain data, and the same as HTML, Markdown and ``report.json``.

:mod:`.assemble` asks the analyses and gathers a bounded amount of their answers into one mapping,
whose keys are stable (docs/history.md); it is what ``report.json`` holds.  Everything after that is
pure: :mod:`.verdict` says in words what happened, :mod:`.plots` draws, :mod:`.html` and
:mod:`.markdown` lay out.
"""
