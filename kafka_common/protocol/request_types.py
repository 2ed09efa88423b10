"""The requests that brokers handle, for mypy: one class for all versions of a request.

kio has a class for each version, and a handler gets an object of any of them.  The types are in
``request_types.pyi``, which ``scripts/write_request_types.py`` writes.  A field that every version
has is an attribute; any other is read by :func:`field_or`.  The classes do not exist when the
program runs, so they may be used in annotations only.
"""

from __future__ import annotations

field_or = getattr
"""The message's field of that name, or the default in versions that lack it."""
