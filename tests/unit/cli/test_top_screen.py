"""The screen of ``zkctl top``, driven by keys, on small and large terminals."""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final
from uuid import UUID

import pytest
from textual import events
from typing_extensions import override

from kafka_common.model import ReplicaAssignment
from tests.support.cli_world import Zkctl, installed_zkctl
from zkcontroller.zookeeper.znodes import PartitionStateZnode

model: Any = import_module("zkcontroller_cli.screen.model")
screen: Any = import_module("zkcontroller_cli.screen.screen")
text: Any = import_module("zkcontroller_cli.screen.text")
tables: Any = import_module("zkcontroller_cli.console.tables")
view_of: Any = import_module("zkcontroller_cli.znodes.partitions").PartitionView
controller_of: Any = import_module("zkcontroller_cli.znodes.cluster_view").ControllerView

SMALL: Final = (80, 24)
LARGE: Final = (160, 50)
LIMIT_S: Final = 30.0
"""The longest wait for a line: a screen that never shows one must not hold the other tests up."""
LONG: Final = "a-topic-whose-name-is-so-long-that-no-terminal-has-room-for-it-" + "x" * 150


class ScriptedReader:
    """Gives one reading after the other; the last one for ever."""

    def __init__(self, readings: Sequence[Any]) -> None:
        self._readings = list(readings)
        self.is_closed = False
        self.go_on = threading.Semaphore(1)

    def read(self) -> Any:
        """The next reading, as soon as the test lets it come."""
        self.go_on.acquire()
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


def partitions(count: int = 40, dead: int | None = None, topic: str = "orders") -> dict[Any, Any]:
    """Partitions on brokers 1 to 3, led by their first replica, or the next if that is dead."""
    views = {}
    for number in range(count):
        replicas = tuple((number + place) % 3 + 1 for place in range(3))
        isr = tuple(broker for broker in replicas if broker != dead)
        epoch = 4 + (replicas[0] == dead)
        views[topic, number] = view_of(
            topic,
            number,
            ReplicaAssignment(replicas),
            PartitionStateZnode(isr[0], epoch, isr, 7),
            0,
            leader_is_live=True,
        )
    return views


def reading(at_ms: int = 60_000, dead: int | None = None, **parts: Any) -> Any:
    live = [each for each in (1, 2, 3) if each != dead]
    given = {
        "source": "ZooKeeper",
        "cluster_id": "RFmBqseVSSCrDR2Fa7224g",
        "controller": controller_of(1, 5, 5, 900, "0x1"),
        "brokers": {
            each: model.BrokerNow(each, "127.0.0.1", 9090 + each, None, 10, 1_000) for each in live
        },
        "topics": {"orders": UUID(int=1)},
        "partitions": partitions(dead=dead),
        "deletions": {},
        "sizes": {each: {("orders", 0): 1_500_000} for each in live},
        "groups": [model.GroupNow("billing", 1, "Stable", "consumer", 3, 400)],
        "queue": model.QueueNow(3, 0.5, 12.25),
    }
    return model.Reading(at_ms, **{**given, **parts})


def crowded() -> Any:
    """Everything at once, with a name that is too long."""
    moving = ReplicaAssignment((3, 1, 2), (3,), (2,))
    views = {**partitions(), **partitions(3, topic=LONG)}
    views["orders", 0] = views["orders", 0]._replace(assignment=moving)
    return reading(
        partitions=views,
        topics={"orders": UUID(int=1), LONG: UUID(int=2)},
        deletions={"orders": 50_000},
        moving_bytes={(1, ("orders", 0)): 10_000, (3, ("orders", 0)): 4_000},
        groups=[model.GroupNow(LONG, 1, "Stable", "consumer", 3, 400)],
        problems=tuple(f"broker {each}, sizes: it did not answer in time" for each in (1, 2, 3)),
    )


class Shown:
    """The screen of a test: its lines as they stand, and keys."""

    def __init__(self, app: Any, pilot: Any, reader: ScriptedReader) -> None:
        self._app = app
        self._pilot = pilot
        self._reader = reader

    @property
    def lines(self) -> list[str]:
        """Every line of the terminal."""
        strips = self._app.screen._compositor.render_strips()
        return ["".join(part.text for part in strip).rstrip() for strip in strips]

    async def press(self, *keys: str) -> list[str]:
        """Press keys; the lines after them."""
        await self._pilot.press(*keys)
        await self._pilot.pause()
        return self.lines

    async def type_ahead(self, *keys: str) -> None:
        """Press keys faster than the screen answers."""
        for key in keys:
            name = {"/": "slash"}.get(key, key)
            self._app.post_message(events.Key(name, {"slash": "/", "enter": "\r"}.get(name, key)))

    async def until(self, wanted: str) -> list[str]:
        """Wait until that is on the screen; what does not come ends the test with the screen."""
        try:
            async with asyncio.timeout(LIMIT_S):
                while not any(wanted in line for line in self.lines):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pytest.fail(f"no line has {wanted!r}:\n" + "\n".join(self.lines))
        await self._pilot.pause()
        return self.lines

    async def next_reading(self, wanted: str) -> list[str]:
        """Let the next reading come."""
        self._reader.go_on.release()
        return await self.until(wanted)

    async def resize(self, width: int, height: int) -> list[str]:
        """Another size of the terminal."""
        await self._pilot.resize_terminal(width, height)
        await self._pilot.pause()
        return self.lines


def drive(
    script: Callable[[Shown], Awaitable[None]],
    *readings: Any,
    size: tuple[int, int] = SMALL,
) -> ScriptedReader:
    """Run the screen on those readings, and the script on the screen."""
    reader = ScriptedReader(readings)

    async def run() -> None:
        app = screen.TopScreen(reader, 0.01)
        async with app.run_test(size=size) as pilot:
            shown = Shown(app, pilot, reader)
            await shown.until("controller ")
            await script(shown)
        reader.go_on.release()
        app.close()

    asyncio.run(run())
    return reader


def under(lines: Sequence[str], title: str) -> list[str]:
    """The lines of the listing whose titles contain that."""
    [start] = [at for at, line in enumerate(lines) if title in line.split()]
    ends = (at for at, line in enumerate(lines) if line.startswith(("Changes,", "No changes")))
    end = next(ends, len(lines) - 1)
    return [line for line in lines[start + 1 : end] if line]


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
def test_the_first_screen_has_the_controller_the_brokers_and_every_key(
    size: tuple[int, int],
) -> None:
    async def script(shown: Shown) -> None:
        lines = shown.lines
        assert len(lines) == size[1]
        assert re.split(r"\s{2,}", lines[0])[0] == "cluster RFmBqseVSSCrDR2Fa7224g"
        assert lines[1].split("  ") == [
            "controller 1",
            "epoch 5",
            "for 59s",
            "event queue 3, waits 0.5 ms, p99 12.2 ms",
        ]
        assert lines[2].startswith("40 partitions  0 offline  0 under-replicated  0 not preferred")
        brokers = under(lines, "BROKER")
        assert [line.split()[:2] for line in brokers] == [
            ["1", "alive"],
            ["2", "alive"],
            ["3", "alive"],
        ]
        assert all("1.4 MiB" in line and "59s" in line for line in brokers)
        assert re.split(r"\s{2,}", lines[-1]) == list(text.HELP)

    drive(script, reading(), size=size)


@pytest.mark.parametrize("size", [SMALL, LARGE, (60, 20)], ids=str)
def test_no_view_cuts_a_word(size: tuple[int, int]) -> None:
    words = {word for columns in text.COLUMNS.values() for c in columns for word in c.title.split()}

    async def script(shown: Shown) -> None:
        for number, view in enumerate(screen.VIEWS, 1):
            lines = await shown.press(str(number))
            assert all(len(line) <= size[0] for line in lines)
            first = text.COLUMNS[view][0].title
            [titles] = [line for line in lines if line.split("  ")[0].strip() == first]
            assert set(titles.split()) <= words, view
            for line in lines:
                assert not re.search(r"\b(alive|under-replicated|reassigning)…", line)
        assert any(text.CUT in line for line in await shown.press("2"))

    drive(script, crowded(), size=size)


def test_what_could_not_be_read_is_on_the_screen_and_in_full_in_its_view() -> None:
    async def script(shown: Shown) -> None:
        assert "! broker 1, sizes: it did not answer in time" in shown.lines
        assert "! 2 more problems: key 7" in shown.lines
        lines = await shown.press("7")
        assert "broker 3, sizes: it did not answer in time" in lines

    drive(script, crowded())


def test_a_broker_dies_and_its_leaders_move_while_one_looks() -> None:
    async def script(shown: Shown) -> None:
        assert "No changes seen yet" in shown.lines
        lines = await shown.next_reading("gone")
        moved = [line for line in under(lines, "BROKER") if line.split()[0] == "2"]
        assert [line.split()[1:3] for line in moved] == [["gone", "0"]]
        assert "40 under-replicated" in lines[2]
        start = next(at for at, line in enumerate(lines) if line.startswith("Changes,"))
        assert lines[start + 1].split()[1:] == ["broker", "broker", "2", "gone"]
        changes = await shown.press("6")
        listed = [" ".join(line.split()[2:]) for line in under(changes, "CHANGE")]
        assert "orders-1 leader 2 → 3, epoch 4 → 5" in listed

    drive(script, reading(), reading(62_000, dead=2))


def test_a_silent_zookeeper_leaves_the_last_reading_and_says_of_when_it_is() -> None:
    async def script(shown: Shown) -> None:
        lines = await shown.next_reading("it is silent")
        assert "! ZooKeeper: it is silent" in lines
        assert f"ZooKeeper of {text.clock_text(60_000)}" in lines[0]
        assert len(under(lines, "BROKER")) == 3

    drive(script, reading(), model.Reading(62_000, problems=("ZooKeeper: it is silent",)))


def test_the_way_leads_from_a_broker_to_its_partitions_and_back() -> None:
    async def script(shown: Shown) -> None:
        lines = await shown.press("down", "enter")
        assert any(line.startswith("partitions of broker 2 by topic: rows 1-") for line in lines)
        rows = under(lines, "PARTITION")
        assert rows
        assert all(line.startswith("orders ") for line in rows)
        lines = await shown.press("escape")
        assert len(under(lines, "BROKER")) == 3

    drive(script, reading())


def test_the_way_leads_from_a_topic_to_its_partitions() -> None:
    views = {**partitions(4), **partitions(2, topic="billing")}
    topics = {"orders": UUID(int=1), "billing": UUID(int=2)}

    async def script(shown: Shown) -> None:
        lines = await shown.press("2", "enter")
        assert [line.split()[:2] for line in under(lines, "PARTITION")] == [
            ["billing", "0"],
            ["billing", "1"],
        ]

    drive(script, reading(partitions=views, topics=topics))


def test_a_filter_narrows_while_it_is_written_and_escape_takes_it_away() -> None:
    views = {**partitions(4), **partitions(2, topic="billing")}
    topics = {"orders": UUID(int=1), "billing": UUID(int=2)}

    async def script(shown: Shown) -> None:
        lines = await shown.press("2", "slash", "b", "i")
        *listed, field = under(lines, "TOPIC")
        assert [line.split()[0] for line in listed] == ["billing"]
        assert field == "bi"
        lines = await shown.press("enter")
        assert len(under(lines, "TOPIC")) == 1
        assert any("matching bi" in line for line in lines)
        lines = await shown.press("escape")
        assert [line.split()[0] for line in under(lines, "TOPIC")] == ["billing", "orders"]
        lines = await shown.press("slash", *"o?d*", "enter")
        assert [line.split()[0] for line in under(lines, "TOPIC")] == ["orders"]

    drive(script, reading(partitions=views, topics=topics))


def test_what_is_typed_ahead_reaches_the_filter() -> None:
    async def script(shown: Shown) -> None:
        await shown.type_ahead("slash", *"o/r", "enter")
        lines = await shown.until("matching o/r by")
        assert any(line.startswith("brokers matching o/r by broker: nothing") for line in lines)

    drive(script, reading())


def test_rows_are_sorted_by_the_next_column_and_the_other_way_round() -> None:
    views = {**partitions(4), **partitions(2, topic="billing")}
    topics = {"orders": UUID(int=1), "billing": UUID(int=2)}

    async def script(shown: Shown) -> None:
        lines = await shown.press("2", "s")
        assert any("by partitions, downwards" in line for line in lines)
        assert [line.split()[0] for line in under(lines, "TOPIC")] == ["orders", "billing"]
        lines = await shown.press("r")
        assert [line.split()[0] for line in under(lines, "TOPIC")] == ["billing", "orders"]

    drive(script, reading(partitions=views, topics=topics))


def test_only_what_is_in_trouble_is_listed_on_demand() -> None:
    views = partitions(40)
    ill = views["orders", 17]
    views["orders", 17] = ill._replace(state=ill.state._replace(in_sync_replicas=(3,)))

    async def script(shown: Shown) -> None:
        lines = await shown.press("3", "t")
        [row] = under(lines, "PARTITION")
        assert row.split() == ["orders", "17", "3", "4", "3,1,2", "3", "under-replicated"]

    drive(script, reading(partitions=views))


def test_the_cursor_stays_on_its_row_while_rows_come_and_go() -> None:
    earlier = {("aaa", number): view for (_, number), view in partitions(3, topic="aaa").items()}

    async def script(shown: Shown) -> None:
        await shown.press("3", *["down"] * 5)
        await shown.next_reading("of 43")
        lines = await shown.press("enter")
        assert any(line.startswith("partitions of topic orders") for line in lines)

    both = {"orders": UUID(int=1), "aaa": UUID(int=2)}
    drive(
        script,
        reading(),
        reading(62_000, partitions={**earlier, **partitions(40)}, topics=both),
    )


def test_every_row_can_be_reached_on_a_small_terminal() -> None:
    async def script(shown: Shown) -> None:
        lines = await shown.press("3", "end")
        assert under(lines, "PARTITION")[-1].split()[1] == "39"
        lines = await shown.press("home")
        assert under(lines, "PARTITION")[0].split()[1] == "0"
        lines = await shown.press("pagedown")
        first = under(lines, "PARTITION")
        assert len(first) > 5

    drive(script, reading())


def test_another_size_shows_another_number_of_rows_and_columns() -> None:
    async def script(shown: Shown) -> None:
        small = under(await shown.press("3"), "PARTITION")
        lines = await shown.resize(*LARGE)
        large = under(lines, "PARTITION")
        assert len(lines) == LARGE[1]
        assert len(large) > len(small)
        lines = await shown.resize(40, 12)
        assert len(lines) == 12
        assert all(len(line) <= 40 for line in lines)

    drive(script, reading())


def test_a_pause_stops_the_readings_until_it_ends() -> None:
    async def script(shown: Shown) -> None:
        lines = await shown.press("p")
        assert "paused" in lines[0]
        lines = await shown.press("p")
        assert "paused" not in lines[0]

    drive(script, reading())


def test_a_reading_that_takes_long_is_said_to_be_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(screen, "SLOW_S", 0.0)

    async def script(shown: Shown) -> None:
        lines = await shown.until("waits for an answer for")
        assert len(under(lines, "BROKER")) == 3

    drive(script, reading())


def test_leaving_closes_the_reader() -> None:
    async def script(shown: Shown) -> None:
        await shown.press("q")

    assert drive(script, reading()).is_closed


def test_a_defect_of_the_reader_ends_the_screen_with_its_error() -> None:
    class Broken(ScriptedReader):
        @override
        def read(self) -> Any:
            raise LookupError("a defect")

    async def run() -> None:
        app = screen.TopScreen(Broken([None]), 0.01)
        async with app.run_test(size=SMALL):
            while app.is_running:
                await asyncio.sleep(0.01)
        app.close()

    with pytest.raises(LookupError, match="a defect"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "width", "expected"),
    [
        ("orders", 6, "orders"),
        ("orders", 5, "or…rs"),
        ("orders", 4, "or…s"),
        ("orders", 1, "…"),
        ("日本語の名前", 7, "日本…前"),
    ],
)
def test_what_is_too_long_loses_its_middle(given: str, width: int, expected: str) -> None:
    assert text.shortened(given, width) == expected
    assert tables.text_width(expected) <= width


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (None, "-"),
        (59_400, "59s"),
        (61_000, "1m01s"),
        (3_600_000, "1h00m"),
        (100_000_000, "1d03h"),
    ],
)
def test_durations_have_two_units(milliseconds: float | None, expected: str) -> None:
    assert text.duration_text(milliseconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "-"), (1023, "1023 B"), (1536, "1.5 KiB"), (-3 * 1024**3, "-3.0 GiB")],
)
def test_sizes_have_one_unit(value: float | None, expected: str) -> None:
    assert text.size_text(value) == expected


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "the screen needs a terminal: --once"),
        (("-o", "json"), "-o json needs --once"),
        (("--interval", "0"), "0.2"),
    ],
)
def test_what_the_screen_needs_is_said(
    zkctl: Zkctl, arguments: Sequence[str], sentence: str
) -> None:
    result = zkctl("-z", "zk:1", "top", *arguments)

    assert result.exit_code == 2
    assert sentence in result.stderr


def test_without_textual_the_error_says_how_to_install_it(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.delitem(sys.modules, "zkcontroller_cli.screen.screen")
    for name in [name for name in sys.modules if name.startswith("textual.")]:
        monkeypatch.setitem(sys.modules, name, None)

    result = zkctl("-z", "zk:1", "top")

    assert result.exit_code == 5
    assert "pip install 'zkcontroller[top]'" in result.stderr
