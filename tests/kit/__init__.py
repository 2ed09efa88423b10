"""The test kit at work, on real processes: known bugs as tests, histories, disks, clocks, znodes.

``make kit`` runs them; docs/testing.md says what the kit offers, and docs/known-bugs.md lists the
bugs.
"""
