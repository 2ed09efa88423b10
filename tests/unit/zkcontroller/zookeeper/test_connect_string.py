"""Connect strings and access control lists."""

from __future__ import annotations

import pytest

from kafka_common.errors import ConfigInvalid
from zkcontroller.zookeeper.acls import (
    ALL,
    CREATOR_AND_READERS,
    CREATOR_ONLY,
    OPEN,
    READ,
    Acl,
    acls_for,
    encode_acls,
)
from zkcontroller.zookeeper.connect_string import ConnectString, parse_connect, parse_credentials


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("localhost", [("localhost", 2181)], ""),
        ("h1:1,h2:65535", [("h1", 1), ("h2", 65535)], ""),
        (" h1:1 , h2 ", [("h1", 1), ("h2", 2181)], ""),
        ("h1:1,h2:2/kafka", [("h1", 1), ("h2", 2)], "/kafka"),
        ("h1:1/a/b-c/d", [("h1", 1)], "/a/b-c/d"),
        ("h1:1/", [("h1", 1)], ""),
        ("h1:1/a/", [("h1", 1)], "/a"),
        ("[::1]:2182,[fe80::1]", [("::1", 2182), ("fe80::1", 2181)], ""),
        ("[2001:db8::7]:1/k", [("2001:db8::7", 1)], "/k"),
    ],
)
def test_a_connect_string_names_servers_and_chroot(
    text: str, servers: list[tuple[str, int]], chroot: str
) -> None:
    assert parse_connect(text) == ConnectString(tuple(servers), chroot)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "without a host"),
        ("/kafka", "without a host"),
        (":2181", "without a host"),
        ("h1:1,,h2:2", "without a host"),
        ("h1:1,", "without a host"),
        ("h1:", "lacks its port"),
        ("h1:port", "'port' is not a port"),
        ("h1:0", "'0' is not a port"),
        ("h1:65536", "'65536' is not a port"),
        ("h1:-1", "'-1' is not a port"),
        ("h1:1:2", "more than one port"),
        ("::1", "more than one port"),
        ("[::1", "is not [address]:port"),
        ("[::1]2181", "is not [address]:port"),
        ("h1:1//a", "not a path"),
        ("h1:1/a//b", "not a path"),
        ("h1:1/a/../b", "not a path"),
    ],
)
def test_a_connect_string_that_is_none_says_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(ConfigInvalid) as invalid:
        parse_connect(text)

    assert told in str(invalid.value)
    assert "zookeeper.connect" in str(invalid.value)
    assert "host:port,host:port/chroot" in str(invalid.value)


def test_the_hosts_alone_keep_brackets_around_ipv6() -> None:
    assert parse_connect("h1:1,[::1]:2/k").hosts == "h1:1,[::1]:2"


@pytest.mark.parametrize(
    ("connect", "path", "absolute"),
    [
        ("h", "/", "/"),
        ("h", "/a", "/a"),
        ("h/kafka", "/", "/kafka"),
        ("h/kafka", "/a/b", "/kafka/a/b"),
        ("h/a", "/a", "/a/a"),
    ],
)
def test_the_chroot_goes_before_a_path_and_comes_off_again(
    connect: str, path: str, absolute: str
) -> None:
    where = parse_connect(connect)

    assert where.absolute(path) == absolute
    assert where.relative(absolute) == path


@pytest.mark.parametrize(
    ("path", "acls"),
    [
        ("/brokers/ids", CREATOR_AND_READERS),
        ("/config/topics/t", CREATOR_AND_READERS),
        ("/consumers", OPEN),
        ("/consumers/group", CREATOR_AND_READERS),
        ("/config/users", CREATOR_ONLY),
        ("/config/users/u", CREATOR_ONLY),
        ("/config/brokers/1", CREATOR_ONLY),
        ("/delegation_token/tokens/t", CREATOR_ONLY),
        ("/delegation_token", CREATOR_AND_READERS),
        ("/", CREATOR_AND_READERS),
    ],
)
def test_with_set_acl_the_path_decides_who_may_read(path: str, acls: tuple[Acl, ...]) -> None:
    assert acls_for(path, set_acl=True) == acls
    assert acls_for(path, set_acl=False) == OPEN


def test_acls_in_wire_format() -> None:
    assert encode_acls((Acl(ALL, "auth", ""), Acl(READ, "world", "anyone"))) == (
        b"\0\0\0\x02\0\0\0\x1f\0\0\0\x04auth\0\0\0\0\0\0\0\x01\0\0\0\x05world\0\0\0\x06anyone"
    )


def test_credentials_are_a_scheme_a_user_and_a_password_that_may_hold_colons() -> None:
    assert parse_credentials("VARIABLE", "digest:kafka:a:b") == (("digest", "kafka:a:b"),)
    assert parse_credentials("VARIABLE", "sasl:kafka:a:b") == (("sasl", "kafka:a:b"),)
    assert parse_credentials("VARIABLE", "") == ()


@pytest.mark.parametrize(
    "text", ["kafka", "digest:kafka", "digest::secret", "kerberos:kafka:secret"]
)
def test_credentials_of_another_form_are_refused_without_repeating_them(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="VARIABLE: expected digest:USER:PASSWORD") as refused:
        parse_credentials("VARIABLE", text)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["a..b:2181", "a" * 64, "zk1:2181,\0:2181", "zk1:2181/a\0"])
def test_what_no_name_server_can_be_asked_for_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"zookeeper\.connect: "):
        parse_connect(text)
