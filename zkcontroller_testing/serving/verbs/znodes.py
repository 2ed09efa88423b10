"""Znodes: read, overwritten, deleted, watched."""

from __future__ import annotations

import base64
import contextlib

from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.refusals import refusal
from zkcontroller_testing.serving.served_request import ServedRequest


def znode(request: ServedRequest[bodies.PathFields]) -> bodies.ZnodeBody:
    """A znode's data and version."""
    handle = request.cluster.kafka.znode(request.body.path)
    return _shown(handle.path, handle.get(), handle.version)


def _shown(path: str, data: bytes | None, zk_version: int | None) -> bodies.ZnodeBody:
    text = None
    with contextlib.suppress(UnicodeDecodeError):
        text = None if data is None else data.decode()
    encoded = None if data is None else base64.b64encode(data).decode()
    return bodies.ZnodeBody(path=path, text=text, base64=encoded, version=zk_version)


def _data(body: bodies.DataFields) -> bytes | None:
    """The data of a body, None if it has none; ApiRefusal ``invalid`` for both or bad base64."""
    if body.text is not None and body.base64 is not None:
        raise refusal("invalid", "give text or base64, not both", "base64")
    try:
        if body.base64 is not None:
            return base64.b64decode(body.base64, validate=True)
        return None if body.text is None else body.text.encode()
    except ValueError as error:
        field = "text" if body.base64 is None else "base64"
        raise refusal("invalid", f"cannot be converted to bytes: {error}", field) from None


def set_znode(request: ServedRequest[bodies.DataFields]) -> bodies.ZnodeBody:
    """Overwrites a znode's data, whatever its version; creates the znode if it is missing."""
    data = _data(request.body)
    if data is None:
        raise refusal("invalid", "give text or base64", "text")
    handle = request.cluster.kafka.znode(request.body.path)
    handle.set(data)
    return _shown(handle.path, data, handle.version)


def corrupt_znode(request: ServedRequest[bodies.DataFields]) -> bodies.ZnodeBody:
    """Overwrites a znode with invalid JSON or with the given data; returns the data before."""
    data = _data(request.body)
    handle = request.cluster.kafka.znode(request.body.path)
    before_version = handle.version
    before = handle.corrupt() if data is None else handle.corrupt(data)
    return _shown(handle.path, before, before_version)


def delete_znode(request: ServedRequest[bodies.PathFields]) -> bodies.DeletedBody:
    """Deletes a znode; ``deleted`` is false if it did not exist or has children."""
    return bodies.DeletedBody(deleted=request.cluster.kafka.znode(request.body.path).delete())


def watch(request: ServedRequest[bodies.PathFields]) -> bodies.WatchBody:
    """Creates a watch for changes of a znode after this moment."""
    request.cluster.watches.check_room()
    watch = request.cluster.kafka.znode(request.body.path).watch()
    return bodies.WatchBody(watch=request.cluster.watches.add(watch))


def wait_change(request: ServedRequest[bodies.WaitFields]) -> bodies.ZnodeBody:
    """Waits for the next change since the watch's last one; returns the data after it."""
    watch = request.cluster.watches.get(request.number("watch"))
    data = watch.wait(request.body.timeout_s)
    return _shown(watch.path, data, watch.version)


def remove_watch(request: ServedRequest[bodies.NoFields]) -> None:
    """Removes a watch."""
    request.cluster.watches.pop(request.number("watch"))
