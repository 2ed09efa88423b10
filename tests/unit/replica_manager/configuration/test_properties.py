"""Java's properties syntax, as ``java.util.Properties`` reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.properties import format_properties, parse_properties


@pytest.mark.parametrize("separator", ["=", ":", " ", "\t", " = ", " : ", "   "])
def test_key_and_value_are_separated_by_equals_colon_or_blanks(separator: str) -> None:
    assert parse_properties(f"broker.id{separator}1") == {"broker.id": "1"}


def test_a_value_may_contain_separators() -> None:
    text = "listeners=PLAINTEXT://:9092,SSL://:9093\nsasl.jaas.config=a b=c;"

    assert parse_properties(text) == {
        "listeners": "PLAINTEXT://:9092,SSL://:9093",
        "sasl.jaas.config": "a b=c;",
    }


def test_a_backslash_at_the_end_joins_the_next_line_without_its_indentation() -> None:
    assert parse_properties("log.dirs=/a,\\\n    /b,\\\n\t/c\nx=1") == {
        "log.dirs": "/a,/b,/c",
        "x": "1",
    }


def test_two_backslashes_at_the_end_are_one_backslash_and_join_nothing() -> None:
    assert parse_properties("a=b\\\\\nc=d") == {"a": "b\\", "c": "d"}


def test_comments_and_empty_lines_are_left_out_and_continue_nothing() -> None:
    assert parse_properties("# a=1 \\\n! b=2\n\n   \n  #c=3\nd=4") == {"d": "4"}


def test_a_line_that_continues_may_begin_with_a_comment_sign() -> None:
    assert parse_properties("a=b\\\n#c") == {"a": "b#c"}


def test_escapes_are_resolved_in_keys_and_values() -> None:
    assert parse_properties("a\\ b\\:c=\\t\\u00e4\\q") == {"a b:c": "\tä" + "q"}


def test_two_unicode_escapes_make_one_character_beyond_the_basic_plane() -> None:
    assert parse_properties("a=\\ud83d\\ude00") == {"a": "\U0001f600"}


def test_a_malformed_unicode_escape_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="four hexadecimal digits"):
        parse_properties("a=\\u12g4")


def test_the_last_of_equal_keys_wins() -> None:
    assert parse_properties("a=1\nb=2\na=3") == {"a": "3", "b": "2"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_ending_counts(end: str) -> None:
    assert parse_properties(f"a=1{end}b=2{end}") == {"a": "1", "b": "2"}


def test_a_key_alone_has_an_empty_value() -> None:
    assert parse_properties("a\nb=\n=c") == {"a": "", "b": "", "": "c"}


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.dictionaries(_TEXTS.filter(bool), _TEXTS, max_size=5))
def test_what_is_written_reads_the_same(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties
