"""Where options stand and come from, and how every ending becomes an exit code."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import pytest

from kafka_common.errors import (
    ConfigInvalid,
    SessionExpired,
    ZooKeeperRefused,
    ZooKeeperUnavailable,
)
from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from tests.unit.cli.commands import all_commands, write_cluster_file


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.mark.parametrize(("name", "command"), all_commands(), ids=lambda value: str(value))
def test_every_verb_takes_the_shared_options(name: str, command: click.Command) -> None:
    taken = {option for parameter in command.params for option in parameter.opts}

    assert {"-z", "--zookeeper", "-b", "-o", "--output", "--dir", "--timeout", "--debug"} <= taken
    assert command.help, name


@pytest.mark.parametrize(
    "arguments",
    [
        ("-z", "zk:1", "-o", "name", "controller", "show"),
        ("controller", "-z", "zk:1", "-o", "name", "show"),
        ("controller", "show", "-z", "zk:1", "-o", "name"),
        ("-z", "elsewhere:1", "-o", "json", "controller", "show", "-z", "zk:1", "-o", "name"),
    ],
)
def test_options_stand_before_the_verb_or_after_it(
    zkctl: Zkctl, arguments: tuple[str, ...]
) -> None:
    furnish(zkctl)

    result = zkctl(*arguments)

    assert result.stdout == "1\n"
    assert zkctl.connected_to == ["zk:1"]


def test_an_address_comes_from_the_flag_then_the_environment_then_the_cluster_file(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_cluster_file(tmp_path, zookeeper="file:1")
    monkeypatch.setenv("ZKCTL_DIR", str(tmp_path))

    zkctl("controller", "show")
    monkeypatch.setenv("ZKCTL_ZOOKEEPER", "environment:1")
    zkctl("controller", "show")
    zkctl("controller", "show", "-z", "flag:1")

    assert zkctl.connected_to == ["file:1", "environment:1", "flag:1"]


def test_a_directory_on_the_command_line_outranks_the_environment(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_cluster_file(tmp_path, zookeeper="file:1")
    monkeypatch.setenv("ZKCTL_ZOOKEEPER", "environment:1")

    zkctl("controller", "show", "--dir", str(tmp_path))
    zkctl("controller", "show", "--dir", str(tmp_path), "-z", "flag:1")

    assert zkctl.connected_to == ["file:1", "flag:1"]


def test_an_explicit_zookeeper_outranks_bootstrap_servers_of_the_cluster_file(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    furnish(zkctl)
    write_cluster_file(tmp_path, zookeeper="file:1")

    result = zkctl("topic", "list", "-z", "zk:1", "--dir", str(tmp_path), "-o", "name")

    assert result.stdout == "orders\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("controller", "show"),
        ("topic", "create", "orders"),
        ("nonsense",),
        ("controller", "show", "-o", "xml"),
        ("controller", "show", "--timeout", "0"),
        ("cluster", "start", "--override", "no-equals-sign"),
        ("topic", "create", "t", "--partitions", "1", "--replica-assignment", "1:2"),
        ("topic", "create", "t", "--replica-assignment", "1:x", "-b", "localhost:1"),
        ("topic", "list", "-b", "no-port"),
        ("controller", "show", "-z", "zk:port"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    zkctl: Zkctl, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = zkctl(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr


def test_a_broker_that_does_not_answer_is_exit_code_3(zkctl: Zkctl) -> None:
    result = zkctl("topic", "list", "-b", "127.0.0.1:1", "--timeout", "5")

    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.startswith("zkctl: ")
    assert "127.0.0.1:1" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "describe", "nosuch", "-z", "zk:1"),
        ("partition", "list", "--topic", "nosuch", "-z", "zk:1"),
        ("broker", "describe", "9", "-z", "zk:1"),
        ("znode", "get", "/nosuch", "-z", "zk:1"),
        ("znode", "ls", "/nosuch", "-z", "zk:1"),
        ("znode", "tree", "/nosuch", "-z", "zk:1"),
        ("topic", "delete", "orders", "-b", "localhost:1"),
        ("cluster", "status"),
        ("cluster", "stop"),
        ("broker", "stop", "1"),
    ],
)
def test_what_cannot_be_done_is_exit_code_5(
    zkctl: Zkctl, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    furnish(zkctl)

    result = zkctl(*arguments)

    assert result.exit_code == 5, result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (ZooKeeperUnavailable("nobody"), 3),
        (SessionExpired("over"), 3),
        (ConnectionRefusedError("no"), 3),
        (TimeoutError("late"), 4),
        (ConfigInvalid("port", -1, "0 to 65535"), 2),
        (KeyError("a defect"), 70),
    ],
)
def test_every_error_has_its_exit_code(error: Exception, exit_code: int) -> None:
    assert import_module("zkcontroller_cli.console.errors").exit_code_of(error) == exit_code


def test_a_defect_is_a_sentence_and_with_debug_a_traceback(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(import_module("zkcontroller_cli.znodes.session"), "ZooKeeperSession", fail)

    quiet = zkctl("controller", "show", "-z", "zk:1")
    loud = zkctl("--debug", "controller", "show", "-z", "zk:1")

    assert quiet.exit_code == loud.exit_code == 70
    assert "broken on purpose" in quiet.stderr
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in loud.stderr


def test_an_interruption_is_exit_code_130_and_leaves_valid_json(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Iterator[dict[str, Any]]:
        yield {"controller_id": 1}
        raise KeyboardInterrupt

    module = import_module("zkcontroller_cli.elections.controller_watch")
    monkeypatch.setattr(module, "changes", interrupted)

    result = zkctl("controller", "watch", "-z", "zk:1", "-o", "json")

    assert result.exit_code == 130
    assert result.json == [{"controller_id": 1}]


def test_a_watch_that_is_too_short_for_its_count_times_out(zkctl: Zkctl) -> None:
    furnish(zkctl)

    counted = zkctl(
        *("controller", "watch", "--count", "2", "--timeout", "0.1", "-z", "zk:1", "-o", "jsonl")
    )
    uncounted = zkctl("controller", "watch", "--timeout", "0.1", "-z", "zk:1", "-o", "jsonl")

    assert counted.exit_code == 4
    assert uncounted.exit_code == 0
    assert counted.json["change"] == uncounted.json["change"] == "current"


HEAVY = (
    *("kazoo", "rich", "asyncio", "yaml", "pyspark", "textual", "ssl", "cryptography"),
    # kio's base, without its messages, is what zkcontroller imports lean: a millisecond.
    *("kio.serial", "kio.schema"),
    *("prometheus_client", "zkcontroller.zookeeper", "kafka_common.protocol", "replica_manager"),
)
"""What no verb's help may import; a verb that runs imports what it needs."""
HEAVY_BEFORE_A_GROUP = (*HEAVY, "orjson", "json", "csv", "importlib.metadata", "email", "socket")


def imported_by(arguments: list[str], names: tuple[str, ...]) -> tuple[str, list[str]]:
    """What the command line prints, and which of the modules it imports."""
    program = (
        "import sys\n"
        "from zkcontroller_cli.main import main\n"
        f"code = main({arguments!r})\n"
        f"print(*[name for name in {names!r} if name in sys.modules], file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout, done.stderr.split()


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["--help"], "Commands:"),
        (["--version"], "zkctl, version "),
        (["completion", "bash"], "complete -o nosort"),
    ],
    ids=" ".join,
)
def test_what_needs_no_cluster_is_answered_without_any_heavy_import(
    arguments: list[str], printed: str
) -> None:
    stdout, imported = imported_by(arguments, HEAVY_BEFORE_A_GROUP)

    assert printed in stdout
    assert imported == []


def test_the_help_of_no_verb_imports_anything_heavy() -> None:
    names = [name for name, _ in all_commands() if name != "zkctl"]
    # A new group is in this list by itself; main() is called for each in one process.
    program = "\n".join(
        [
            "import io, sys",
            "from contextlib import redirect_stdout",
            "from zkcontroller_cli.main import main",
            "known, found = set(), {}",
            f"for name in {names!r}:",
            "    with redirect_stdout(io.StringIO()):",
            "        assert main([*name.split()[1:], '--help']) == 0",
            f"    new = [each for each in {HEAVY!r} if each in sys.modules and each not in known]",
            "    known.update(new)",
            "    if new: found[name] = new",
            "print(found)",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )

    assert done.stdout == "{}\n"


def test_the_version_is_the_installed_one(zkctl: Zkctl) -> None:
    assert zkctl("--version").stdout == f"zkctl, version {version('zkcontroller')}\n"


def test_the_shell_is_offered_the_verbs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zkcontroller_cli"],
        env={"_ZKCTL_COMPLETE": "bash_complete", "COMP_WORDS": "zkctl part", "COMP_CWORD": "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert done.stdout == "plain,partition\n"


MANY_ROWS = """
import sys
import click
from zkcontroller_cli import main, znode
from zkcontroller_cli.console.options import settings, shared_options
from zkcontroller_cli.console.render import named

@click.command("many")
def many():
    rows = [{"path": f"/many/{i:090}"} for i in range(5_000)]
    settings().renderer.rows(rows, named("path"))

znode.command.add_command(many)
sys.exit(main.main(["znode", "many", *sys.argv[1:]]))
"""
"""More than a pipe holds."""


def shell(script: str, tmp_path: Path) -> tuple[int, str]:
    """The exit code and stderr of a script in which ``$MANY`` writes a long listing."""
    program = tmp_path / "many.py"
    program.write_text(MANY_ROWS)
    many = shlex.join([sys.executable, str(program)])
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script.replace('$MANY', many)}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("output_format", ["table", "json", "yaml", "csv"])
def test_a_reader_that_has_enough_is_no_error(output_format: str, tmp_path: Path) -> None:
    assert shell(f"$MANY -o {output_format} | head -n 1", tmp_path) == (0, "")


@pytest.mark.parametrize("output_format", ["table", "csv"])
def test_a_result_that_cannot_be_written_is_said(output_format: str, tmp_path: Path) -> None:
    full = shell(f"$MANY -o {output_format} > /dev/full", tmp_path)
    closed = shell(f"$MANY -o {output_format} >&-", tmp_path)

    assert full == (74, "zkctl: the result could not be written: No space left on device\n")
    assert closed == (74, "zkctl: stdout is closed, so no result could be written\n")


def test_a_zookeeper_that_refuses_is_an_answer_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    main = import_module("zkcontroller_cli.main").main
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    sessions: list[Any] = []
    module = import_module("zkcontroller_cli.znodes.session")
    monkeypatch.setattr(module, "ZooKeeperSession", lambda *a, **_: sessions.append(a))

    code = main(["broker", "list", "-z", f"127.0.0.1:{port},127.0.0.1:{port}"])
    by_name = main(["broker", "list", "-z", "no-such-host.invalid:2181"])

    assert (code, by_name) == (3, 3)
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        f"zkctl: no ZooKeeper at 127.0.0.1:{port},127.0.0.1:{port}: Connection refused"
    )
    assert second.startswith("zkctl: no ZooKeeper at no-such-host.invalid:2181: ")
    assert sessions == [], "no session was begun"


def test_a_stopped_local_cluster_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main = import_module("zkcontroller_cli.main").main
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    write_cluster_file(tmp_path, zookeeper=f"127.0.0.1:{port}")

    assert main(["broker", "list", "--dir", str(tmp_path)]) == 3

    assert f"the cluster in {tmp_path} does not run: zkctl cluster start" in capsys.readouterr().err


def test_a_refusal_for_want_of_rights_names_the_way_to_get_them(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ZooKeeperRefused("/brokers/ids", "NO_AUTH")

    monkeypatch.setattr(
        import_module("zkcontroller_cli.znodes.partitions"), "live_broker_ids", refuse
    )
    monkeypatch.setattr(
        import_module("zkcontroller_cli.znodes.registrations"), "live_broker_ids", refuse
    )

    result = zkctl("broker", "list", "-z", "zk:1")

    assert result.exit_code == 5
    assert "NO_AUTH for /brokers/ids: say who you are with ZKCTL_ZOOKEEPER_AUTH" in result.stderr


def test_a_corrupt_topic_that_is_asked_for_is_named(zkctl: Zkctl) -> None:
    furnish(zkctl)
    zkctl.create("/brokers/topics/broken", b"{")

    described = zkctl("topic", "describe", "broken", "-z", "zk:1")
    listed = zkctl("topic", "list", "-z", "zk:1", "-o", "name")

    assert described.exit_code == 5
    assert "/brokers/topics/broken of topic broken is corrupt" in described.stderr
    assert (listed.exit_code, listed.stdout) == (0, "orders\n")


@pytest.mark.parametrize(("name", "command"), all_commands(), ids=lambda value: str(value))
def test_help_shows_commands_first_and_global_options_once(
    name: str, command: click.Command
) -> None:
    *parents, last = name.split()
    context: click.Context | None = None
    for part in parents:
        context = click.Context(click.Command(part), parent=context, info_name=part)
    shown = command.get_help(click.Context(command, parent=context, info_name=last))

    assert "..." not in shown.replace("COMMAND [ARGS]...", "").replace("[OPTIONS]...", "")
    assert ("Show the traceback of an error" in shown) == (name == "zkctl")
    if isinstance(command, click.Group):
        assert shown.index("\nCommands:") < shown.index("\nOptions:")
    if name != "zkctl":
        assert "Global options (addresses, -o, --timeout, …): zkctl --help" in shown


def test_who_gives_a_value_that_begins_with_a_dash_reads_how(zkctl: Zkctl) -> None:
    renewed = zkctl("token", "renew", "-fXu3zLVyQ8qnNvBQ7cGZtw")
    mistyped = zkctl("token", "renew", "--hmca-file", "hmac")
    listed = zkctl("token", "list", "-Q")

    assert "behind --: zkctl token renew -- [TOKEN_ID]\n" in renewed.stderr
    assert {result.exit_code for result in (renewed, mistyped, listed)} == {2}
    assert "behind --" not in mistyped.stderr + listed.stderr
