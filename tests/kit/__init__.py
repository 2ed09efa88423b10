"""The test kit at work, on real processes: known bugs as tests, histories, disks, clocks, znodes.

And the pages that show it, or a cluster, to a reader: every command and block on them is run.

``make kit`` runs them; docs/testing.md says what the kit offers, and docs/known-bugs.md lists the
bugs.
"""
