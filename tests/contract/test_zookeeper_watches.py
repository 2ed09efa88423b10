"""Watches: one-shot, of every kind, and no change is ever missed."""

from __future__ import annotations

import pytest

from tests.contract.conftest import Client
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Create,
    Delete,
    ListChildren,
    ReadZnodes,
    SetData,
    UnfencedBatch,
    WatchFired,
    WatchKind,
    Write,
)

CREATED = WatchKind.NODE_CREATED
DELETED = WatchKind.NODE_DELETED
CHANGED = WatchKind.NODE_DATA_CHANGED
CHILDREN = WatchKind.NODE_CHILDREN_CHANGED

# So many paths are read by MultiRead, which cannot watch by itself.
FILLING = [f"/filling-{number}" for number in range(30)]


def write(client: Client, *operations: Write) -> None:
    client.perform(UnfencedBatch(operations))


def heard(client: Client) -> list[WatchFired]:
    """All that the client has got; what fired earlier arrives before the answer to a read."""
    client.perform(CheckExists(["/"]))
    return client.watches.heard


@pytest.fixture(params=["few", "many"])
def filling(request: pytest.FixtureRequest) -> list[str]:
    """Paths to ask beside the one that matters."""
    return FILLING if request.param == "many" else []


def test_a_data_watch_fires_once_when_the_data_changes(
    client: Client, other: Client, filling: list[str]
) -> None:
    write(other, Create("/a", b""))
    client.perform(ReadZnodes(["/a", *filling], watch=True))

    write(other, Create("/a/child"))
    assert heard(client) == []
    write(other, SetData("/a", b"1"))
    write(other, SetData("/a", b"2"))

    assert heard(client) == [WatchFired(CHANGED, "/a")]


def test_a_data_watch_fires_when_the_znode_goes_and_not_for_its_return(
    client: Client, other: Client, filling: list[str]
) -> None:
    write(other, Create("/a", b""))
    client.perform(ReadZnodes(["/a", *filling], watch=True))

    write(other, Delete("/a"), Create("/a"))

    assert heard(client) == [WatchFired(DELETED, "/a")]


def test_reading_what_does_not_exist_leaves_no_watch(
    client: Client, other: Client, filling: list[str]
) -> None:
    client.perform(ReadZnodes(["/a", *filling], watch=True))
    client.perform(ListChildren(["/a", *filling], watch=True))

    write(other, Create("/a"), *map(Create, filling))

    assert heard(client) == []


def test_a_watch_on_what_does_not_exist_fires_when_it_is_created(
    client: Client, other: Client, filling: list[str]
) -> None:
    client.perform(CheckExists(["/a", *filling], watch=True))

    write(other, Create("/a"))
    write(other, SetData("/a", b"1"), Delete("/a"))

    assert heard(client) == [WatchFired(CREATED, "/a")]


def test_an_exists_watch_on_what_exists_fires_on_change_and_deletion(
    client: Client, other: Client, filling: list[str]
) -> None:
    write(other, Create("/a"), Create("/b"))
    client.perform(CheckExists(["/a", "/b", *filling], watch=True))

    write(other, SetData("/a", b"1"), Delete("/b"))

    assert heard(client) == [WatchFired(CHANGED, "/a"), WatchFired(DELETED, "/b")]


def test_a_child_watch_fires_once_when_a_child_comes_or_goes(
    client: Client, other: Client, filling: list[str]
) -> None:
    write(other, Create("/p"), Create("/q"), Create("/q/c"))
    client.perform(ListChildren(["/p", "/q", *filling], watch=True))

    write(other, SetData("/p", b"1"), SetData("/q/c", b"1"))
    assert heard(client) == []
    write(other, Create("/p/1"), Create("/p/2"), Delete("/q/c"))

    assert heard(client) == [WatchFired(CHILDREN, "/p"), WatchFired(CHILDREN, "/q")]


def test_a_child_watch_fires_when_the_parent_itself_goes(
    client: Client, other: Client, filling: list[str]
) -> None:
    write(other, Create("/p"))
    client.perform(ListChildren(["/p", *filling], watch=True))

    write(other, Delete("/p"))

    assert heard(client) == [WatchFired(DELETED, "/p")]


def test_both_watches_of_a_znode_tell_its_deletion_once(
    client: Client, other: Client, filling: list[str]
) -> None:
    write(other, Create("/p"))
    client.perform(ReadZnodes(["/p", *filling], watch=True))
    client.perform(ListChildren(["/p", *filling], watch=True))

    write(other, Delete("/p"))

    assert heard(client) == [WatchFired(DELETED, "/p")]


def test_a_watch_set_twice_fires_once(client: Client, other: Client, filling: list[str]) -> None:
    write(other, Create("/p"))
    for _ in range(3):
        client.perform(ReadZnodes(["/p", *filling], watch=True))
        client.perform(ReadZnodes(["/p"], watch=True))
        client.perform(CheckExists(["/p", *filling], watch=True))

    write(other, SetData("/p", b""), SetData("/p", b""))

    assert heard(client) == [WatchFired(CHANGED, "/p")]


def test_a_watch_may_be_set_again_after_it_fired(
    client: Client, other: Client, filling: list[str]
) -> None:
    write(other, Create("/p"))
    for _ in range(3):
        client.perform(ReadZnodes(["/p", *filling], watch=True))
        write(other, SetData("/p", b""))

    assert heard(client) == [WatchFired(CHANGED, "/p")] * 3


def test_a_read_without_watch_sets_none(client: Client, other: Client, filling: list[str]) -> None:
    write(other, Create("/p"))
    client.perform(ReadZnodes(["/p", *filling]))
    client.perform(ListChildren(["/p", *filling]))
    client.perform(CheckExists(["/p", "/nope", *filling]))

    write(other, SetData("/p", b""), Create("/p/c"), Create("/nope"))

    assert heard(client) == []


def test_ones_own_writes_fire_ones_own_watches(client: Client) -> None:
    write(client, Create("/p"))
    client.perform(ReadZnodes(["/p"], watch=True))
    client.perform(ListChildren(["/p"], watch=True))

    write(client, SetData("/p", b""), Create("/p/c"))

    assert heard(client) == [WatchFired(CHANGED, "/p"), WatchFired(CHILDREN, "/p")]


def test_a_refused_write_fires_nothing(client: Client, other: Client) -> None:
    write(other, Create("/p"))
    client.perform(ReadZnodes(["/p"], watch=True))
    client.perform(CheckExists(["/q"], watch=True))

    write(other, SetData("/p", b"", 7), Create("/q/deep"), Delete("/p", 7))

    assert heard(client) == []


def test_the_root_can_be_watched(client: Client, other: Client) -> None:
    client.perform(ListChildren(["/"], watch=True))

    write(other, Create("/new"))

    assert heard(client) == [WatchFired(CHILDREN, "/")]


def test_the_end_of_an_ephemeral_fires(client: Client, other: Client) -> None:
    write(other, Create("/e", b"", ephemeral=True))
    client.perform(CheckExists(["/e"], watch=True))
    client.perform(ListChildren(["/"], watch=True))

    other.session.close()

    fired = client.watches.wait_until(lambda all_heard: len(all_heard) == 2)
    assert fired == [WatchFired(DELETED, "/e"), WatchFired(CHILDREN, "/")]
