"""Java's numbers and texts: what ``Integer.parseInt`` takes, and ``split`` gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.java import java_address, parse_int, split_by_commas


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+1", 1),
        ("007", 7),
        ("2147483647", 2147483647),
        ("-2147483648", -2147483648),
        ("0" * 5000 + "1", 1),
        ("\u0663", 3),  # a digit of the Arabic script
    ],
)
def test_a_sign_and_digits_are_a_number(text: str, number: int) -> None:
    assert parse_int(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "+", " 1", "1 ", "1\n", "0_1", "1.0", "0x1", "--1", "one", "2147483648", "-2147483649",
     "9" * 5000, "\u00b2", "\U0001d7cf"],
)  # fmt: skip
def test_anything_else_is_none(text: str) -> None:
    assert parse_int(text) is None


@given(st.integers(), st.sampled_from([16, 32, 64]))
def test_a_number_is_read_if_it_fits_into_its_bits(number: int, bits: int) -> None:
    fits = -(1 << (bits - 1)) <= number < 1 << (bits - 1)

    assert parse_int(str(number), bits) == (number if fits else None)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        (",", []),
        (",,", []),
        ("a,,", ["a"]),
        (",a", ["", "a"]),
        ("a, b", ["a", " b"]),
    ],
)
def test_a_text_is_split_at_its_commas(text: str, parts: list[str]) -> None:
    assert split_by_commas(text) == parts


@pytest.mark.parametrize(
    ("host", "printed"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::a00:27ff:fe4e:66a1%eth0", "/fe80:0:0:0:a00:27ff:fe4e:66a1%eth0"),
        ("::ffff:10.0.0.7", "/10.0.0.7"),
        ("somewhere", "/somewhere"),
    ],
)
def test_an_address_looks_as_java_prints_it(host: str, printed: str) -> None:
    assert java_address(host) == printed
