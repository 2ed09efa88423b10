"""Names of entities, encoded and checked."""

from __future__ import annotations

import pytest

from kafka_common.sanitizer import is_ip_address


@pytest.mark.parametrize("text", ["127.0.0.1", "::1", "2001:db8::7", "fe80::1%eth0"])
def test_an_address_is_known(text: str) -> None:
    assert is_ip_address(text)


@pytest.mark.parametrize(
    "text", ["", "localhost", "127.0.0", "127.0.0.1%eth0", "::1/64", "<default>"]
)
def test_what_is_no_address_is_known(text: str) -> None:
    assert not is_ip_address(text)
