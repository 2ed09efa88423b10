"""The requests that are answered, for mypy: one class for all versions of a request.

Kio has a class for each version, and a handler gets an object of any of them.  The types stand in
``request_types.pyi``, which ``scripts/write_request_types.py`` writes: a field that every version
has is an attribute; any other is read by :func:`field_or`.  Nothing but that function exists when
the program runs, so the classes may be named in annotations only.
"""

from __future__ import annotations

field_or = getattr
"""The message's field of that name, or the default in versions that lack it."""
