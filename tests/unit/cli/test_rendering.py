"""Values to text: what the formats promise beyond what the verbs' own tests see."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import time
from importlib import import_module
from typing import Any

import orjson
import pytest
import yaml

render = import_module("zkcontroller_cli.console.render")

ROWS: list[dict[str, Any]] = [
    {"topic": "orders", "isr": [1, 2], "leader": None, "is_offline": False, "more": {"a": [1]}},
    {"topic": 'naïve, "quoted"\nname', "isr": [], "leader": 3, "is_offline": True, "more": {}},
]
LAYOUT = render.named("topic", "topic", "isr", "leader", "is_offline", keys=tuple(ROWS[0]))


def rendered(output_format: str, rows: list[dict[str, Any]] = ROWS) -> str:
    out = io.StringIO()
    render.Renderer(render.Format(output_format), out).rows(rows, LAYOUT)
    return out.getvalue()


def test_a_table_shows_chosen_columns_aligned_and_whole() -> None:
    lines = rendered("table").splitlines()

    assert lines[0].split() == ["TOPIC", "ISR", "LEADER", "IS_OFFLINE"]
    assert lines[1].split() == ["orders", "1,2", "-", "no"]
    assert lines[2].startswith('naïve, "quoted"\\nname')
    assert lines[0].index("IS_OFFLINE") == lines[1].index("no") == lines[2].index("yes")


def test_rows_without_members_are_an_empty_listing_in_every_format() -> None:
    assert rendered("table", []).split() == ["TOPIC", "ISR", "LEADER", "IS_OFFLINE"]
    assert orjson.loads(rendered("json", [])) == []
    assert rendered("jsonl", []) == ""
    assert yaml.safe_load(rendered("yaml", [])) == []
    assert rendered("csv", []) == "topic,isr,leader,is_offline,more\n"
    assert rendered("name", []) == ""


def test_csv_quotes_what_needs_it_and_joins_lists_by_spaces() -> None:
    assert rendered("csv") == (
        "topic,isr,leader,is_offline,more\n"
        'orders,1 2,,false,"{""a"":[1]}"\n'
        '"naïve, ""quoted""\nname",,3,true,{}\n'
    )


def test_json_and_yaml_keep_types_and_order() -> None:
    assert orjson.loads(rendered("json")) == ROWS
    assert yaml.safe_load(rendered("yaml")) == ROWS
    assert list(orjson.loads(rendered("json"))[0]) == list(ROWS[0])


@pytest.mark.parametrize("text", ["no", "1e3", "0x10", "null", "- a", "a: b", "", "é", "a\tb", "~"])
def test_yaml_does_not_turn_text_into_something_else(text: str) -> None:
    assert yaml.safe_load(rendered("yaml", [{"topic": text}])) == [{"topic": text}]


def test_a_record_in_a_table_has_its_lists_of_objects_below_it() -> None:
    out = io.StringIO()
    record = {"topic": "orders", "configs": {"a": "b"}, "partitions": [{"partition": 0}]}

    render.Renderer(render.Format.TABLE, out).record(record, LAYOUT)

    assert out.getvalue().splitlines() == [
        "topic:    orders",
        'configs:  {"a":"b"}',
        "",
        "partitions:",
        "PARTITION",
        "0",
    ]


def test_a_stream_of_json_is_readable_line_by_line_and_as_a_whole() -> None:
    out = io.StringIO()
    stream = render.Renderer(render.Format.JSON, out).stream(LAYOUT)
    stream.write(ROWS[0])
    stream.write(ROWS[1])
    stream.close()

    assert orjson.loads(out.getvalue()) == ROWS
    assert len(out.getvalue().splitlines()) == len(ROWS) + 2


def test_twenty_thousand_rows_are_rendered_whole() -> None:
    row = {"topic": "t", "isr": [1, 2, 3], "leader": 1, "is_offline": False, "more": {}}

    for output_format in ("table", "json", "jsonl", "csv", "name"):
        assert rendered(output_format, [row] * 20_000).count("\n") >= 20_000


def on_a_terminal(**environment: str) -> str:
    """What a table looks like when stdout is a terminal."""
    program = (
        "import sys\n"
        "from zkcontroller_cli.console.render import Format, Renderer, named\n"
        "row = {'topic': 'orders', 'leader': 1}\n"
        "Renderer(Format.TABLE, sys.stdout).rows([row], named('topic'))\n"
    )
    ours, theirs = pty.openpty()
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    with os.fdopen(ours, "rb", buffering=0) as screen:
        subprocess.run(
            [sys.executable, "-c", program],
            stdout=theirs,
            env={**kept, "TERM": "xterm-256color", **environment},
            timeout=30,
            check=True,
        )
        shown = screen.read(65536).decode()
        os.close(theirs)
    return shown


def test_a_terminal_gets_colours() -> None:
    shown = on_a_terminal()

    assert "\x1b[" in shown
    assert "orders" in shown


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_and_a_dumb_terminal_get_none(environment: dict[str, str]) -> None:
    shown = on_a_terminal(**environment)

    assert "\x1b" not in shown
    assert "orders" in shown


def table_at(width: int, rows: list[dict[str, Any]], *, is_coloured: bool = False) -> list[str]:
    tables = import_module("zkcontroller_cli.console.tables")
    lines = [tables.Line([str(value) for value in row.values()]) for row in rows]
    titles = [tables.title_of(key) for key in rows[0]]
    text: str = tables.table_text(titles, lines, width=width, is_coloured=is_coloured)
    return text.splitlines()


PARTITION: dict[str, Any] = {
    "topic": "orders",
    "partition": 0,
    "leader_epoch": 12,
    "isr": "1,2,3",
    "controller_epoch": 5,
    "zk_version": 1,
}


def test_a_table_that_fits_has_its_titles_on_one_line() -> None:
    assert table_at(80, [PARTITION])[0].split() == [key.upper() for key in PARTITION]


def test_on_a_narrow_terminal_titles_stand_one_word_below_the_other() -> None:
    lines = table_at(60, [PARTITION])

    assert lines == [
        "                   LEADER         CONTROLLER  ZK",
        "TOPIC   PARTITION  EPOCH   ISR    EPOCH       VERSION",
        "orders  0          12      1,2,3  5           1",
    ]


def test_on_a_very_narrow_terminal_the_widest_cells_are_folded_and_nothing_is_cut_off() -> None:
    row = {"topic": "a-topic-with-a-long-name", "endpoints": "PLAINTEXT://a:1,SSL://b:2"}

    lines = table_at(36, [row])

    assert lines == [
        "TOPIC              ENDPOINTS",
        "a-topic-with-a-lo  PLAINTEXT://a:1,",
        "ng-name            SSL://b:2",
    ]


@pytest.mark.parametrize("width", [1, 10, 30, 45, 60, 80, 200])
def test_every_table_keeps_its_words_and_its_width_where_it_can(width: int) -> None:
    rows = [PARTITION, PARTITION | {"topic": "t" * 70, "isr": ",".join(map(str, range(30)))}]

    lines = table_at(width, rows)

    words = {word for key in PARTITION for word in key.upper().split("_")}
    assert words <= set(" ".join(lines).replace("_", " ").split())
    if width >= 60:
        assert max(map(len, lines)) <= width
    cells = "".join("".join(lines).split())
    assert cells.count("t") == 70


def test_a_title_without_rows_and_wide_characters_are_aligned() -> None:
    assert table_at(20, [{"topic": "漢字", "id": 1}, {"topic": "ab", "id": 2}]) == [
        "TOPIC  ID",
        "漢字   1",
        "ab     2",
    ]


def test_trouble_is_coloured_and_health_is_not() -> None:
    tables = import_module("zkcontroller_cli.console.tables")
    lines = [
        tables.Line(["fine"]),
        tables.Line(["late"], tables.RowColour.WARNING),
        tables.Line(["gone"], tables.RowColour.ERROR),
    ]

    plain = tables.table_text(["STATE"], lines, width=80, is_coloured=False)
    coloured = tables.table_text(["STATE"], lines, width=80, is_coloured=True)

    assert plain.split() == ["STATE", "fine", "late", "gone"]
    assert "\x1b" not in plain
    assert coloured.splitlines()[1:] == ["fine", "\x1b[33mlate\x1b[0m", "\x1b[31mgone\x1b[0m"]


def test_moments_are_shown_in_local_time_and_durations_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    row = {"elected_at_ms": 1_700_000_000_123, "elapsed_ms": 7, "mtime_ms": 0}
    out = io.StringIO()

    render.Renderer(render.Format.TABLE, out).record(row, render.named("elapsed_ms"))

    assert out.getvalue().splitlines() == [
        "elected_at:  2023-11-14 22:13:20.123",
        "elapsed_ms:  7",
        "mtime:       0",
    ]
    monkeypatch.undo()
    time.tzset()


def test_the_rows_of_a_watch_stand_below_their_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    out = io.StringIO()
    layout = render.named("id", "time_ms", "id")
    stream = render.Renderer(render.Format.TABLE, out).stream(layout)
    stream.write({"time_ms": 1_700_000_000_123, "id": 1})
    stream.write({"time_ms": 1_700_000_001_123, "id": 2})
    stream.close()

    assert out.getvalue().splitlines() == [
        "TIME                     ID",
        "2023-11-14 22:13:20.123  1",
        "2023-11-14 22:13:21.123  2",
    ]
    monkeypatch.undo()
    time.tzset()
