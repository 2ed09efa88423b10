"""Clusters by name: which one a verb goes to, and the file that keeps them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.cli_world import Zkctl, furnish, installed_zkctl
from tests.unit.cli.commands import write_cluster_file

contexts = import_module("zkcontroller_cli.console.contexts")
options = import_module("zkcontroller_cli.console.options")
errors = import_module("zkcontroller_cli.console.errors")

GARBAGE = (
    b"",
    b"{",
    b"[]",
    b'{"version": 1}',
    b'{"version": 2, "contexts": {}}',
    b'{"version": 1, "contexts": {}, "current": "gone"}',
    b'{"version": 1, "contexts": {}, "current": ["a"]}',
    b'{"version": 1, "contexts": {}, "more": 1}',
    b'{"version": 1, "contexts": {"a": 1}}',
    b'{"version": 1, "contexts": {"a b": {"zookeeper": "zk:1"}}}',
    b'{"version": 1, "contexts": {"a": {"zookeper": "zk:1"}}}',
    b'{"version": 1, "contexts": {"a": {"zookeeper": 1}}}',
    b'{"version": 1, "contexts": {"a": {"zookeeper": ""}}}',
    b'{"version": 1, "contexts": {"a": {"zookeeper": "zk:1", "timeout_s": 0}}}',
    b'{"version": 1, "contexts": {"a": {"zookeeper": "zk:1", "timeout_s": true}}}',
    b'{"version": 1, "contexts": {"a": {"zookeeper": "zk:1", "timeout_s": NaN}}}',
    b'{"version": 1, "contexts": {"a": {"zookeeper": "zk:1", "timeout_s": 1' + b"0" * 400 + b"}}}",
    b"\xff\xfe",
    b"[" * 100_000,
    b" " * (1 << 20) + b"{}",
)


@pytest.fixture
def zkctl(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Zkctl]:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        monkeypatch.setenv("ZKCTL_CONFIG", str(tmp_path / "contexts.json"))
        monkeypatch.chdir(tmp_path)
        furnish(zkctl)
        yield zkctl


def write(path: Path, current: str | None = None, /, **found: dict[str, Any]) -> None:
    content = {"version": 1, "current": current, "contexts": found}
    path.write_text(json.dumps(content))


def test_a_context_is_made_shown_renamed_and_deleted(zkctl: Zkctl, tmp_path: Path) -> None:
    made = zkctl("context", "set", "production", "-z", "zk:1/kafka", "-b", "b:1", "-o", "json")
    zkctl("context", "set", "staging", "-b", "b:2", "--default-output", "csv", "--use")
    zkctl("context", "set", "staging", "--default-timeout", "5", "--unset", "output")
    shown = zkctl("context", "show", "-o", "json").json
    renamed = zkctl("context", "rename", "staging", "test", "-o", "json").json
    names = zkctl("context", "list", "-o", "name").stdout
    used = zkctl("context", "use", "production", "-o", "json").json
    deleted = zkctl("context", "delete", "production", "-o", "json")

    assert made.json == {
        "context": "production",
        "is_current": False,
        "zookeeper": "zk:1/kafka",
        "bootstrap_servers": "b:1",
        "command_config": None,
        "zk_tls_config": None,
        "output": None,
        "timeout_s": None,
    }
    assert "zkctl context use production" in made.stderr
    assert (shown["context"], shown["output"], shown["timeout_s"]) == ("staging", None, 5.0)
    assert shown["source"] == str(tmp_path / "contexts.json")
    assert renamed["is_current"] is True
    assert names == "production\ntest\n"
    assert used == {"context": "production", "context_before": "test"}
    assert deleted.json["zookeeper"] == "zk:1/kafka"
    assert "none is current now" in deleted.stderr
    assert zkctl("context", "show").exit_code == 5


def test_a_verb_goes_to_the_flag_the_environment_the_context_then_the_local_cluster(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    local = tmp_path / "zkctl-cluster"
    local.mkdir()
    write_cluster_file(local, zookeeper="local:1")
    here = {name: {"zookeeper": f"{name}:1"} for name in ("current", "variable", "flag")}
    write(tmp_path / "contexts.json", **here)

    zkctl("controller", "show")
    write(tmp_path / "contexts.json", "current", **here)
    zkctl("controller", "show")
    monkeypatch.setenv("ZKCTL_CONTEXT", "variable")
    zkctl("controller", "show")
    zkctl("controller", "show", "--context", "flag")
    zkctl("controller", "show", "-z", "address:1")
    zkctl("controller", "show", "--dir", str(local))
    monkeypatch.delenv("ZKCTL_CONTEXT")
    monkeypatch.setenv("ZKCTL_ZOOKEEPER", "exported:1")
    zkctl("controller", "show")
    zkctl("controller", "show", "--context", "flag")

    assert zkctl.connected_to == [
        *("local:1", "current:1", "variable:1", "flag:1"),
        *("address:1", "local:1", "exported:1", "flag:1"),
    ]


def test_a_directory_of_the_environment_outranks_the_current_context(
    zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write(tmp_path / "contexts.json", "current", current={"zookeeper": "current:1"})
    monkeypatch.setenv("ZKCTL_DIR", str(tmp_path))

    zkctl("controller", "show")
    write_cluster_file(tmp_path, zookeeper="local:1")
    zkctl("controller", "show")

    assert zkctl.connected_to == ["current:1", "local:1"]


def test_a_directory_without_a_cluster_does_not_lead_to_the_current_context(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    write(tmp_path / "contexts.json", "current", current={"zookeeper": "current:1"})

    result = zkctl("controller", "show", "--dir", str(tmp_path / "mistyped"))

    assert result.exit_code == 2
    assert zkctl.connected_to == []


BOTH = {
    "zookeeper": "zk-of-context:1",
    "bootstrap_servers": "broker-of-context:1",
    "command_config": "/context.properties",
    "zk_tls_config": "/context-tls.properties",
    "output": "json",
    "timeout_s": 7,
}


def chosen(tmp_path: Path, current: str | None = "current", **flags: Any) -> dict[str, Any]:
    """What a command line with these flags goes by."""
    write(tmp_path / "contexts.json", current, current=BOTH, empty={"bootstrap_servers": "only:1"})
    given = options.Settings(**flags)
    zookeeper, brokers = given.find_zookeeper(), given.find_bootstrap()
    return {
        "zookeeper": zookeeper and zookeeper.text,
        "brokers": brokers and brokers.text,
        "output": given.format_text,
        "timeout_s": given.deadline_s,
        "context": given.context and given.context.name,
    }


NO_CONTEXT = {"output": "table", "timeout_s": 30.0, "context": None}


@pytest.mark.usefixtures("zkctl")
def test_a_context_is_used_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {
        "zookeeper": "zk-of-context:1",
        "brokers": "broker-of-context:1",
        "output": "json",
        "timeout_s": 7,
        "context": "current",
    }

    assert chosen(tmp_path) == whole
    assert chosen(tmp_path, output="csv", timeout_s=1.0) == {
        **whole,
        "output": "csv",
        "timeout_s": 1.0,
    }
    # A flag names another cluster: nothing of the context is left.
    assert chosen(tmp_path, zookeeper_flag="x:1") == {
        "zookeeper": "x:1",
        "brokers": None,
        **NO_CONTEXT,
    }
    assert chosen(tmp_path, bootstrap_flag="x:1") == {
        "zookeeper": None,
        "brokers": "x:1",
        **NO_CONTEXT,
    }
    assert chosen(tmp_path, other_address="x:1")["context"] is None
    # Both are named: the flag's address, and not the context's other one.
    assert chosen(tmp_path, zookeeper_flag="x:1", context_flag="current") == {
        **whole,
        "zookeeper": "x:1",
        "brokers": None,
    }
    monkeypatch.setenv("ZKCTL_ZOOKEEPER", "exported:1")
    assert chosen(tmp_path) == {"zookeeper": "exported:1", "brokers": None, **NO_CONTEXT}
    assert chosen(tmp_path, context_flag="empty") == {
        "zookeeper": None,
        "brokers": "only:1",
        "output": "table",
        "timeout_s": 30.0,
        "context": "empty",
    }


@pytest.mark.usefixtures("zkctl")
def test_files_of_a_context_are_left_out_with_its_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def note(path: Path, _option: str) -> dict[str, str]:
        read.append(str(path))
        return {}

    config = import_module("replica_manager.configuration.config")
    monkeypatch.setattr(config, "read_properties", note)
    write(tmp_path / "contexts.json", "current", current=BOTH)

    def security(**flags: Any) -> list[str]:
        read.clear()
        assert options.Settings(**flags).security is not None
        return list(read)

    assert security() == ["/context.properties"]
    assert security(zookeeper_flag="x:1") == []
    assert security(command_config_flag=Path("/flag")) == ["/flag"]
    monkeypatch.setenv("ZKCTL_COMMAND_CONFIG", "/exported")
    assert security() == ["/exported"]
    assert security(context_flag="current") == ["/context.properties"]


@pytest.mark.parametrize(
    ("environment", "arguments", "said"),
    [
        (
            {"ZKCTL_CONTEXT": "a", "ZKCTL_ZOOKEEPER": "x:1"},
            (),
            "ZKCTL_CONTEXT=a and ZKCTL_ZOOKEEPER name two clusters",
        ),
        ({}, ("--context", "a", "--dir", "d"), "--context a and --dir d name two clusters"),
        ({}, ("--context", ""), "is empty"),
    ],
)
def test_two_clusters_named_alike_are_wrong_usage(
    zkctl: Zkctl,
    environment: dict[str, str],
    arguments: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    write(tmp_path / "contexts.json", a={"zookeeper": "a:1"})
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    result = zkctl("controller", "show", *arguments)

    assert result.exit_code == 2
    assert said in result.stderr
    assert zkctl.connected_to == []
    assert zkctl("context", "list", "-o", "name").stdout == "a\n", "the way out is not barred"


def test_a_context_that_is_not_there_is_named_before_anything_is_done(zkctl: Zkctl) -> None:
    result = zkctl("controller", "show", "--context", "prod")

    assert result.exit_code == 5
    assert "there is no context 'prod' in " in result.stderr
    assert zkctl.connected_to == []


def test_verbs_of_a_local_cluster_refuse_a_context(zkctl: Zkctl, tmp_path: Path) -> None:
    write(tmp_path / "contexts.json", a={"zookeeper": "a:1"})

    stopped = zkctl("cluster", "stop", "--context", "a")
    killed = zkctl("broker", "stop", "1", "--kill", "--context", "a")

    assert (stopped.exit_code, killed.exit_code) == (2, 2)
    assert "--dir DIR" in killed.stderr


@pytest.mark.parametrize(
    "verb",
    [("broker", "start", "f"), ("metrics", "1"), ("demo",), ("lab",), ("storage", "random-uuid")],
)
def test_verbs_that_ask_no_cluster_need_no_context(
    zkctl: Zkctl, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    (tmp_path / "contexts.json").write_text("{")
    (tmp_path / "f").write_text("no.such.key")

    refused = zkctl(*verb, "--context", "a")

    assert refused.exit_code == 2
    assert "this verb asks no cluster that a context names" in refused.stderr
    assert zkctl("storage", "random-uuid").exit_code == 0


def test_an_option_that_names_nodes_is_not_mixed_with_a_context(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    write(tmp_path / "contexts.json", "a", a={"bootstrap_servers": "b:1", "command_config": "/no"})
    describe = ("quorum", "describe", "--bootstrap-controller", "127.0.0.1:1", "--timeout", "5")

    alone = zkctl(*describe)
    with_it = zkctl(*describe, "--context", "a")

    assert alone.exit_code == 3, "the nodes were asked, without the context's file"
    assert "context" not in alone.stderr
    assert with_it.exit_code == 2
    assert "/no" in with_it.stderr


def test_the_addresses_of_a_context_are_compared_before_a_change(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    target = import_module("zkcontroller_cli.wire.target")
    write(tmp_path / "contexts.json", "a", a={"zookeeper": "zk:1", "bootstrap_servers": "b:1"})
    local = tmp_path / "local"
    local.mkdir()
    write_cluster_file(local, zookeeper="local:1")

    assert zkctl.connected_to == []
    assert target._are_from_two_places(options.Settings())
    assert not target._are_from_two_places(options.Settings(directory_flag=local))


def test_a_change_is_refused_where_the_zookeeper_does_not_say_its_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = import_module("zkcontroller_cli.wire.target")

    async def of_brokers(*_: Any) -> Any:
        return SimpleNamespace(cluster_id="the-cluster")

    def is_silent(*_: Any) -> Any:
        raise errors.CannotConnect("no ZooKeeper at zk:1")

    monkeypatch.setattr(target, "metadata", of_brokers)
    monkeypatch.setattr(target, "open_zookeeper", is_silent)
    named = options.Settings(zookeeper_flag="zk:1", bootstrap_flag="b:1")

    with pytest.raises(errors.Refused, match="does not say of which cluster it is: no ZooKeeper"):
        target.brokers_to_change(named)
    alone = options.Settings(bootstrap_flag="b:1")
    assert target.brokers_to_change(alone).servers == "b:1"


def test_a_context_says_how_results_look(zkctl: Zkctl, tmp_path: Path) -> None:
    write(tmp_path / "contexts.json", "a", a={"zookeeper": "a:1", "output": "name"})

    assert zkctl("broker", "list").stdout == "1\n2\n"
    assert zkctl("broker", "list", "-o", "csv").stdout.startswith("broker_id,")


def test_an_output_that_is_none_is_refused_before_anything_is_done(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    write(tmp_path / "contexts.json", "a", a={"zookeeper": "a:1", "output": "xml"})

    result = zkctl("controller", "elect", "--yes")

    assert result.exit_code == 2
    assert zkctl.connected_to == []


def test_the_line_that_names_the_target_names_the_context(zkctl: Zkctl, tmp_path: Path) -> None:
    write(tmp_path / "contexts.json", "a", a={"zookeeper": "a:1/x"})
    furnish(zkctl, "/x")

    result = zkctl("controller", "elect", "--dry-run")

    assert "target: context a, cluster without id, ZooKeeper a:1/x\n" in result.stderr


def test_an_address_that_does_not_answer_is_said_to_be_a_contexts(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    write(tmp_path / "contexts.json", "a", a={"bootstrap_servers": "127.0.0.1:1"})

    result = zkctl("topic", "list", "--timeout", "5")

    assert result.exit_code == 3
    assert result.stderr.endswith("; this is context a: zkctl context show a\n")


def test_a_context_without_the_address_that_a_verb_needs_says_how_it_gets_one(
    zkctl: Zkctl, tmp_path: Path
) -> None:
    write(tmp_path / "contexts.json", "a", a={"command_config": "/x"})

    needs_zookeeper = zkctl("controller", "show")
    needs_brokers = zkctl("topic", "offsets")

    assert "zkctl context set a -z HOST:PORT[/CHROOT]" in needs_zookeeper.stderr
    assert needs_zookeeper.exit_code == needs_brokers.exit_code == 2


@pytest.mark.parametrize("content", GARBAGE, ids=lambda content: repr(content[:60]))
def test_a_file_that_cannot_be_read_is_named_and_kept(
    zkctl: Zkctl, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "contexts.json"
    path.write_bytes(content)

    results = [
        zkctl("context", "list"),
        zkctl("context", "set", "b", "-z", "zk:1"),
        zkctl("context", "use", "--none"),
        zkctl("context", "delete", "a"),
        zkctl("broker", "list"),
    ]

    for result in results:
        assert result.exit_code == 5, result.stderr
        assert result.stdout == ""
        assert result.stderr.startswith(f"zkctl: {path} is not a file of contexts: ")
        assert len(result.stderr.splitlines()) == 1
    assert path.read_bytes() == content
    assert zkctl.connected_to == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "a b", "-z", "zk:1"),
        ("set", "-x", "-z", "zk:1"),
        ("set", "new"),
        ("set", "new", "--default-output", "json"),
        ("set", "new", "-z", "zk:port"),
        ("set", "new", "-b", "no-port"),
        ("set", "new", "-b", "b:1", "--command-config", "no-such-file"),
        ("set", "old", "-z", "zk:1", "--unset", "zookeeper"),
        ("set", "old", "--unset", "zookeeper"),
        ("set", "old", "--unset", "nonsense"),
        ("set", "old", "--default-output", "xml"),
        ("set", "old", "--default-output", "template={"),
        ("use",),
        ("use", "old", "--none"),
        ("rename", "old", "a/b"),
    ],
)
def test_what_cannot_be_a_context_is_wrong_usage(
    zkctl: Zkctl, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    write(tmp_path / "contexts.json", old={"zookeeper": "zk:1"})
    before = (tmp_path / "contexts.json").read_bytes()

    result = zkctl("context", *arguments)

    assert result.exit_code == 2, result.stderr
    assert result.stderr
    assert (tmp_path / "contexts.json").read_bytes() == before


def test_a_name_is_not_taken_from_another_context(zkctl: Zkctl, tmp_path: Path) -> None:
    write(tmp_path / "contexts.json", a={"zookeeper": "a:1"}, b={"zookeeper": "b:1"})

    assert zkctl("context", "rename", "a", "b").exit_code == 5
    assert zkctl("context", "rename", "a", "a").exit_code == 0
    assert zkctl("context", "show", "b", "-o", "json").json["zookeeper"] == "b:1"


def test_the_file_is_for_its_owner_alone_and_holds_no_secret(
    zkctl: Zkctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKCTL_ZOOKEEPER_AUTH", "digest:alice:alice-secret")
    path = tmp_path / "contexts.json"
    path.write_text('{"version": 1, "contexts": {}}')
    path.chmod(0o644)
    properties = tmp_path / "client.properties"
    properties.write_text("ssl.key.password=secret\n")

    zkctl("context", "set", "a", "-b", "b:1", "--command-config", properties.name)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret" not in path.read_text()
    assert json.loads(path.read_text())["contexts"]["a"]["command_config"] == str(properties)


def test_a_link_to_the_file_stays_a_link(zkctl: Zkctl, tmp_path: Path) -> None:
    elsewhere = tmp_path / "dotfiles.json"
    (tmp_path / "contexts.json").symlink_to(elsewhere)

    zkctl("context", "set", "a", "-z", "zk:1")

    assert (tmp_path / "contexts.json").is_symlink()
    assert "zk:1" in elsewhere.read_text()


def test_a_file_that_cannot_be_written_stays_as_it_was(
    zkctl: Zkctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "contexts.json", a={"zookeeper": "a:1"})
    before = (tmp_path / "contexts.json").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = zkctl("context", "set", "b", "-z", "b:1")

    assert result.exit_code == 5
    assert "No space left on device" in result.stderr
    assert (tmp_path / "contexts.json").read_bytes() == before
    assert not list(tmp_path.glob(".contexts*")), "no draft is left behind"


def _add_ten(path: Path, worker: int) -> None:
    for number in range(10):
        with contexts.context_changes(path) as file:
            name = f"{worker}-{number}"
            file.contexts[name] = contexts.ClusterContext(name, zookeeper="zk:1")


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "new" / "contexts.json"
    # The lock is one of open files: it keeps threads apart as it does processes.
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(partial(_add_ten, path), range(4)))

    assert len(contexts.ContextFile.load(path).contexts) == 40


def test_the_number_of_contexts_is_bounded(
    zkctl: Zkctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "_MAX_CONTEXTS", 1)
    write(tmp_path / "contexts.json", a={"zookeeper": "a:1"})

    assert zkctl("context", "set", "b", "-z", "b:1").exit_code == 5
    assert zkctl("context", "list", "-o", "name").stdout == "a\n"


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"ZKCTL_CONFIG": "/c/own.json"}, "/c/own.json"),
        ({"ZKCTL_CONFIG": "", "XDG_CONFIG_HOME": "/x"}, "/x/zkctl/contexts.json"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/zkctl/contexts.json"),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, "/h/.config/zkctl/contexts.json"),
    ],
)
def test_the_file_is_where_the_environment_says(
    environment: dict[str, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZKCTL_CONFIG", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert str(contexts.context_path()) == path
