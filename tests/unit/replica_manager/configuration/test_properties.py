"""Java's properties syntax, as ``java.util.Properties`` reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.properties import format_properties, parse_properties

READ = {
    "a value may contain separators": (
        "listeners=PLAINTEXT://:9092,SSL://:9093\nsasl.jaas.config=a b=c;",
        {"listeners": "PLAINTEXT://:9092,SSL://:9093", "sasl.jaas.config": "a b=c;"},
    ),
    "a backslash at the end joins the next line without its indentation": (
        "log.dirs=/a,\\\n    /b,\\\n\t/c\nx=1", {"log.dirs": "/a,/b,/c", "x": "1"}
    ),
    "two backslashes at the end are one, and join nothing": (
        "a=b\\\\\nc=d", {"a": "b\\", "c": "d"}
    ),
    "comments and empty lines are left out and continue nothing": (
        "# a=1 \\\n! b=2\n\n   \n  #c=3\nd=4", {"d": "4"}
    ),
    "a line that continues may begin with a comment sign": ("a=b\\\n#c", {"a": "b#c"}),
    "escapes": ("a\\ b\\:c=\\t\\u00e4\\q", {"a b:c": "\tä" + "q"}),
    "a character beyond the basic plane": ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
    "the last of equal keys wins": ("a=1\nb=2\na=3", {"a": "3", "b": "2"}),
    "a key alone has an empty value": ("a\nb=\n=c", {"a": "", "b": "", "": "c"}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_a_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("separator", ["=", ":", " ", "\t", " = ", " : ", "   "])
def test_key_and_value_are_separated_by_equals_colon_or_blanks(separator: str) -> None:
    assert parse_properties(f"broker.id{separator}1") == {"broker.id": "1"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_ending_counts(end: str) -> None:
    assert parse_properties(f"a=1{end}b=2{end}") == {"a": "1", "b": "2"}


def test_a_malformed_unicode_escape_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="four hexadecimal digits"):
        parse_properties("a=\\u12g4")


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.dictionaries(_TEXTS.filter(bool), _TEXTS, max_size=5))
def test_what_is_written_reads_the_same(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties
