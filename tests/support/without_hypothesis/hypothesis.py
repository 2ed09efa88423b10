"""Hides Hypothesis from processes that tests start; see ``child_processes.py``."""

from __future__ import annotations

raise ImportError("this process does without Hypothesis, as in production")
