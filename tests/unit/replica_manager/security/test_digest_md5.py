"""A login by SASL DIGEST-MD5: RFC 2831's own example, and servers that are not right."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.errors import SaslRefused
from zkcontroller.zookeeper.digest_md5 import DigestMd5Login

CHALLENGE = (
    b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",'
    b"algorithm=md5-sess,charset=utf-8"
)
PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def login(username: str = "chris") -> DigestMd5Login:
    return DigestMd5Login(username, "secret", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com")


def test_the_example_of_the_rfc() -> None:
    chris = login()

    assert chris.first() == b""
    response = chris.step(CHALLENGE).decode().split(",")
    assert "response=d388dad90d4bbd760a152321f2143af7" in response
    assert 'username="chris"' in response
    assert 'realm="elwood.innosoft.com"' in response
    assert not chris.is_complete
    assert chris.step(PROOF) == b""
    assert chris.is_complete


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    for proof in (PROOF.replace(b"ea", b"ae"), b"", b"rspauth="):
        chris = login()
        chris.step(CHALLENGE)
        with pytest.raises(SaslRefused, match="does not know"):
            chris.step(proof)
        assert not chris.is_complete


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b'realm="x"',
        b'nonce="n",algorithm=md5',
        b'nonce="n",algorithm=md5-sess,qop="auth-conf"',
        b"\xff\xfe",
        b'nonce="' + b"n" * 2048 + b'"',
    ],
)
def test_what_is_no_challenge_is_refused(challenge: bytes) -> None:
    with pytest.raises(SaslRefused):
        login().step(challenge)


def test_quotes_in_names_are_kept_apart_from_the_syntax() -> None:
    response = login('a"b\\c').step(rb'nonce="x\"y",qop="auth-int,auth"')

    assert rb'username="a\"b\\c"' in response
    assert rb'nonce="x\"y"' in response


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_whatever_a_server_says_is_refused_or_answered(first: bytes, second: bytes) -> None:
    chris = login()
    with contextlib.suppress(SaslRefused):
        chris.step(first)
        chris.step(second)
    assert not chris.is_complete
