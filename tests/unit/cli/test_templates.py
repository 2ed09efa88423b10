"""``-o template=…`` and ``-o wide``."""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cli_world import Zkctl, furnish, installed_zkctl

render = import_module("zkcontroller_cli.console.render")
templates = import_module("zkcontroller_cli.console.templates")
errors = import_module("zkcontroller_cli.console.errors")

ROW: dict[str, Any] = {
    "topic": "orders",
    "partition": 0,
    "leader": None,
    "is_offline": False,
    "isr": [1, 2],
    "configs": {"retention.ms": "1000", "retention": {"ms": "not this one"}},
    "brokers": [{"broker_id": 7, "racks": ["a", "b"]}],
}
LAYOUT = render.named("topic", "topic", keys=(*ROW, "later"))


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    for zkctl in installed_zkctl(monkeypatch, capsys):
        furnish(zkctl)
        yield zkctl


def shown(template: str, row: dict[str, Any] = ROW) -> str:
    out = io.StringIO()
    chosen, parsed = render.parse_format(f"template={template}")
    render.Renderer(chosen, out, parsed).rows([row], LAYOUT)
    return out.getvalue()


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("{topic}-{partition}", "orders-0"),
        ("{leader}|{later}|{is_offline}", "||false"),
        ("{isr} {isr.0} {isr.9}", "1,2 1 "),
        ("{configs.retention.ms}", "1000"),
        ("{brokers.0.broker_id} {brokers.0.racks.1}", "7 b"),
        ("{leader.anything}", ""),
        ("{topic:<8}|{topic:>8}|{partition:^3}", "orders  |  orders| 0 "),
        (r"{topic}\t{partition}\n.\\", "orders\t0\n.\\"),
        ("{{{topic}}}", "{orders}"),
        ("no field", "no field"),
        ("{brokers.0}", '{"broker_id":7,"racks":["a","b"]}'),
    ],
)
def test_a_row_is_a_line_of_ones_own(template: str, line: str) -> None:
    assert shown(template) == line + "\n"


@pytest.mark.parametrize(
    "template",
    [
        *("", "{", "}", "{}", "{topic", "{topic!r}", "{topic.}", "{.topic}", "{ topic }"),
        *("{topic[0]}", "{topic:{partition}}", "{topic:x}", "{topic:0}", "{topic:1000}"),
        *("{topic:\x00}", "{topic:.2}", "x" * 10_001),
    ],
)
def test_what_is_no_template_is_wrong_usage(zkctl: Zkctl, template: str) -> None:
    result = zkctl("topic", "list", "-z", "zk:1", "-o", f"template={template}")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert zkctl.connected_to == []


@pytest.mark.parametrize(
    "field",
    [
        *("topc", "configs.nosuch", "brokers.first", "topic.0", "brokers.0.nosuch"),
        *("__class__", "topic.__class__", "isr.__len__", "configs.__init__.__globals__"),
    ],
)
def test_no_field_reaches_more_than_the_keys(field: str) -> None:
    with pytest.raises(templates.UnknownField, match="known are topic, partition, leader"):
        shown(f"{{{field}}}")


def test_an_unknown_key_is_wrong_usage_that_names_the_known_ones(zkctl: Zkctl) -> None:
    result = zkctl("topic", "list", "-z", "zk:1", "-o", "template={topc}")
    empty = zkctl("partition", "list", "-z", "zk:1", "--offline", "-o", "template={topc}")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "no key 'topc' here; known are topic, topic_id," in result.stderr
    assert empty.exit_code == 2


def test_a_listing_without_rows_shows_nothing_and_checks_the_keys(zkctl: Zkctl) -> None:
    zkctl.create("/empty/brokers/ids")
    empty = ("broker", "list", "-z", "zk:1/empty", "-o")

    assert zkctl(*empty, "template={broker_id}").stdout == ""
    assert zkctl(*empty, "template={broker_id}").exit_code == 0
    assert zkctl(*empty, "template={broker}").exit_code == 2


def test_a_change_whose_result_cannot_be_shown_is_not_said_to_be_wrong_usage() -> None:
    out = io.StringIO()
    chosen, parsed = render.parse_format("template={nosuch}")
    renderer = render.Renderer(chosen, out, parsed, only_reads=False)

    with pytest.raises(errors.OutputLost, match="it was done, but not shown"):
        renderer.record(ROW, LAYOUT)


def test_verbs_say_whether_they_only_read(zkctl: Zkctl) -> None:
    read = zkctl("controller", "show", "-z", "zk:1", "-o", "template={x}")
    changed = zkctl("controller", "elect", "--dry-run", "-z", "zk:1", "-o", "template={x}")

    assert (read.exit_code, changed.exit_code) == (2, 74)


@given(st.text(max_size=40))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    try:
        line = shown(text)
    except errors.BadUsage as error:
        assert "-o template=" in str(error)  # noqa: PT017 most texts are templates
    else:
        assert line.endswith("\n")


@given(
    st.text(max_size=20),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    ),
)
def test_any_path_into_any_value_ends_in_text_or_an_unknown_key(path: str, value: Any) -> None:
    walked = templates._walk({"key": value}, ["key", *path.split(".")])

    assert walked is templates._MISSING or isinstance(walked, type(walked))


def test_wide_shows_every_key_and_the_most_useful_ones_first(zkctl: Zkctl) -> None:
    table = zkctl("partition", "list", "-z", "zk:1").stdout.splitlines()
    wide = zkctl("partition", "list", "-z", "zk:1", "-o", "wide").stdout.splitlines()
    rows = zkctl("partition", "list", "-z", "zk:1", "-o", "json").json

    assert wide[0].startswith(table[0].rstrip())
    assert {title.lower() for title in wide[0].split()} == set(rows[0])
    assert len(wide) == len(table) == 4


def test_wide_describes_one_thing_as_a_table_does(zkctl: Zkctl) -> None:
    verb = ("controller", "show", "-z", "zk:1", "-o")

    assert zkctl(*verb, "wide").stdout == zkctl(*verb, "table").stdout
