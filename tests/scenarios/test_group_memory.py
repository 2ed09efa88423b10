"""What members say of themselves has bounds in bytes: of a member, a group, and the coordinator."""

from __future__ import annotations

from replica_manager.coordinators.groups.config import MAX_PENDING_MEMBER_CHARACTERS, GroupConfig
from replica_manager.coordinators.groups.requests import Protocol
from tests.scenarios.group_world import GroupWorld

KILOBYTE = b"\0" * 1_000
REFUSED = "group_max_size_reached"


def large(protocols: int) -> tuple[Protocol, ...]:
    return tuple(Protocol(f"protocol-{number}", KILOBYTE) for number in range(protocols))


def test_a_member_that_says_too_much_of_itself_is_refused() -> None:
    world = GroupWorld(GroupConfig(max_member_bytes=10_000))
    [a] = world.consumers("a")

    a.protocols = large(10)
    assert a.join() == REFUSED
    a.protocols = large(8)
    assert a.join() == "waiting"


def test_a_group_whose_members_say_too_much_takes_no_more_and_serves_those_it_has() -> None:
    world = GroupWorld(GroupConfig(max_group_bytes=10_000))
    a, b, c = world.consumers("a", "b", "c")
    for each in (a, b, c):
        each.protocols = large(4)

    assert [each.join() for each in (a, b, c)] == ["waiting", "waiting", REFUSED]
    world.pass_ms(10_000)
    a.sync()
    assert b.sync() == "none"

    b.protocols = large(6)
    assert b.join() == REFUSED
    b.leave()
    assert c.join() == "waiting"


def test_the_members_of_all_groups_together_have_a_bound() -> None:
    world = GroupWorld(GroupConfig(max_members_bytes=6_000))
    a, b = world.consumers("a", "b")
    a.protocols = b.protocols = large(4)

    assert a.join() == "waiting"
    assert b.join() == REFUSED
    world.pass_ms(10_000)
    a.sync()
    a.leave()
    assert b.join() == "waiting"


def test_unused_member_ids_have_a_bound_in_characters() -> None:
    world = GroupWorld()
    clients = world.consumers(*(f"{number}-" + "x" * 30_000 for number in range(200)))

    for client in clients:
        assert client.ask_to_join() == "member_id_required"

    assert sum(map(len, world.group.pending_members)) <= MAX_PENDING_MEMBER_CHARACTERS
