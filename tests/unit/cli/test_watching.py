"""``--watch``: which verbs take it, and what it shows, on a terminal and off it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

import click
import orjson
import pytest
from typing_extensions import override

from kafka_common.errors import ZooKeeperUnavailable
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from tests.support.paths import ROOT
from tests.unit.cli.commands import all_commands
from zkcontroller.zookeeper.requests import Delete
from zkcontroller.zookeeper.znodes import BrokerIdZnode

watching = import_module("zkcontroller_cli.console.watching")
options = import_module("zkcontroller_cli.console.options")
registrations = import_module("zkcontroller_cli.znodes.registrations")

LIST = ("broker", "list", "-z", "zk:1", "-o")


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        furnish(zkctl)
        yield zkctl


class Pauses:
    """Stands in for the pause between two looks; the one after the last look is a Ctrl-C."""

    def __init__(self, looks: int) -> None:
        self.seconds: list[float] = []
        self._looks = looks
        self.between: Callable[[], None] = lambda: None

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == self._looks:
            raise KeyboardInterrupt
        self.between()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    found = Pauses(2)
    monkeypatch.setattr(watching, "pause", found)
    return found


def takes_watch(command: click.Command) -> bool:
    return any("--watch" in parameter.opts for parameter in command.params)


NAMED_BY_WHAT_THEY_DO = {"list", "describe", "show", "status"}
ALSO_WATCHED = (
    "topic offsets",
    "config get",
    "log-dirs sizes",
    "log-dirs moves",
    "log-dirs strays",
    "group members",
    "txn producers",
    "txn find-hanging",
    "acl who",
    "acl explain",
    "znode ls",
    "znode get",
    "znode tree",
    "metrics",
    "doctor",
)


def test_every_verb_that_is_watched_knows_how_often_by_itself() -> None:
    watched = [command for _, command in all_commands() if takes_watch(command)]

    for command in watched:
        command.make_parser(click.Context(command)).parse_args(["--watch"])
    assert len(watched) > len(ALSO_WATCHED)


def test_verbs_that_only_read_take_it_and_no_other_verb_does() -> None:
    watched = {name for name, command in all_commands() if takes_watch(command)}
    changing = {
        name
        for name, command in all_commands()
        if {"--yes", "--dry-run", "--detach", "--kill", "--force", "--if-not-exists"}
        & {option for parameter in command.params for option in parameter.opts}
    }
    last_words = {"set", "use", "delete", "rename", "create", "alter", "start", "stop", "format"}

    named = {name for name in watched if name.split()[-1] not in NAMED_BY_WHAT_THEY_DO}
    assert named == {f"zkctl {name}" for name in ALSO_WATCHED}
    page = (ROOT / "docs" / "zkctl.md").read_text()
    assert all(
        f"`{name}`" in page.partition("`--watch [SECONDS]`")[2][:800] for name in ALSO_WATCHED
    )
    assert not watched & changing
    assert not {name for name in watched if name.split()[-1] in last_words}


def test_a_verb_of_any_group_takes_it_by_its_name_or_its_mark() -> None:
    group = options.VerbGroup("acl")

    def nothing() -> None:
        """Nothing."""

    for name in ("list", "describe", "add"):
        group.command(name)(nothing)
    group.command("who-may")(options.reads(lambda: None))
    group.add_command(
        click.Command("show", params=[click.Option(["--yes"], is_flag=True)], callback=nothing)
    )

    assert [name for name, verb in group.commands.items() if takes_watch(verb)] == [
        *("list", "describe", "who-may"),
    ]


def test_each_answer_is_a_new_block_until_ctrl_c(zkctl: Zkctl, pauses: Pauses) -> None:
    def stop_broker_2() -> None:
        zkctl.session().write(Delete(BrokerIdZnode.path(2)))

    pauses.between = stop_broker_2
    result = zkctl(*LIST, "csv", "--watch", "7")

    first, second = result.stdout.split("\n\n")
    assert [line.split(",")[0] for line in first.splitlines()] == ["broker_id", "1", "2"]
    assert [line.split(",")[0] for line in second.splitlines()] == ["broker_id", "1"]
    assert result.exit_code == 130
    assert pauses.seconds == [7.0, 7.0]


@pytest.mark.parametrize("output_format", ["json", "jsonl", "yaml", "name", "table", "wide"])
def test_every_format_can_be_split_into_its_blocks(
    zkctl: Zkctl, pauses: Pauses, output_format: str
) -> None:
    once = zkctl(*LIST, output_format).stdout
    twice = zkctl(*LIST, output_format, "--watch").stdout

    between = {"table": "\n", "wide": "\n", "yaml": "---\n"}.get(output_format, "")
    assert twice == once + between + once
    assert pauses.seconds[0] == 2.0


def test_an_error_at_the_first_look_ends_it_and_a_later_one_does_not(
    zkctl: Zkctl, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = zkctl("topic", "describe", "nosuch", "-z", "zk:1", "--watch")
    seconds_before = list(pauses.seconds)
    looks = iter([True, False, True])
    read = registrations.live_broker_ids

    def sometimes(*arguments: Any) -> Any:
        if not next(looks):
            raise ZooKeeperUnavailable("away for a moment")
        return read(*arguments)

    monkeypatch.setattr(registrations, "live_broker_ids", sometimes)
    pauses._looks = 3
    result = zkctl(*LIST, "jsonl", "--watch")

    assert missing.exit_code == 5
    assert seconds_before == []
    assert result.exit_code == 130
    assert result.stderr.split("\n") == [
        *("zkctl: away for a moment", "", "zkctl: interrupted", ""),
    ]
    assert [orjson.loads(line)["broker_id"] for line in result.stdout.splitlines()] == [1, 2, 1, 2]


def test_a_defect_ends_it_at_any_look(
    zkctl: Zkctl, pauses: Pauses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_it() -> None:
        monkeypatch.setattr(registrations, "live_broker_ids", lambda *_: 1 / 0)

    pauses.between = break_it

    assert zkctl(*LIST, "json", "--watch").exit_code == 70


def test_an_argument_behind_watch_without_seconds_is_explained(zkctl: Zkctl) -> None:
    result = zkctl("znode", "get", "--watch", "/controller", "-z", "zk:1")

    assert result.exit_code == 2
    assert "--watch=2 /controller" in result.stderr


class FakeTerminal(io.StringIO):
    """A stdout that is a terminal; keeps what was written, in order."""

    @override
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> FakeTerminal:
    terminal = FakeTerminal()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("NO_COLOR", "1")
    return terminal


def frames(terminal: FakeTerminal) -> list[list[str]]:
    """The lines of each painting; all begin at the top left and take away what was there."""
    texts = terminal.getvalue().split("\x1b[H")[1:]
    assert all(text.endswith("\x1b[J") for text in texts)
    return [text.removesuffix("\x1b[J").replace("\x1b[K", "").splitlines() for text in texts]


@pytest.mark.usefixtures("zkctl")
def test_a_terminal_is_repainted(
    pauses: Pauses, terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        def away(*_: object) -> None:
            raise ZooKeeperUnavailable("away for a moment")

        monkeypatch.setattr(registrations, "live_broker_ids", away)

    pauses.between = fail
    with pytest.raises(click.Abort):
        _run(terminal, *LIST, "table", "--watch")

    first, second = frames(terminal)
    assert terminal.getvalue().startswith("\x1b[2J")
    assert first[0].endswith("  zkctl broker list, every 2 s")
    assert first[2].split()[0] == "BROKER_ID"
    assert [line.split()[0] for line in first[3:]] == ["1", "2"]
    assert second[2:] == ["zkctl: away for a moment"]


@pytest.mark.usefixtures("pauses")
def test_a_terminal_that_is_too_short_says_how_much_it_does_not_show(
    zkctl: Zkctl, terminal: FakeTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "10")
    for number in range(30):
        zkctl.create(f"/many/{number:02}")
    with pytest.raises(click.Abort):
        _run(terminal, "znode", "ls", "/many", "-z", "zk:1", "--watch")

    for frame in frames(terminal):
        assert len(frame) == 9
        assert frame[-1] == "and 25 more lines: -o json has all"


@pytest.mark.usefixtures("pauses")
def test_warnings_are_painted_below_the_answer(
    zkctl: Zkctl, terminal: FakeTerminal, capsys: pytest.CaptureFixture[str]
) -> None:
    zkctl.create("/brokers/topics/broken", b"{")
    with pytest.raises(click.Abort):
        _run(terminal, "topic", "list", "-z", "zk:1", "--watch")

    for frame in frames(terminal):
        assert frame[-1].startswith("warning: znode /brokers/topics/broken")
    assert capsys.readouterr().err == "\n", "the one that ends the line of the ^C"


def _run(terminal: FakeTerminal, *arguments: str) -> None:
    root = import_module("zkcontroller_cli.main").zkctl
    with redirect_stdout(terminal):
        root.main(list(arguments), "zkctl", standalone_mode=False, obj=options.Settings())
