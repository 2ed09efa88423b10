"""Key stores and trust stores that are replaced while the broker runs."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from kafka_common.errors import ConfigInvalid
from replica_manager.broker.zookeeper_broker import zookeeper_broker
from replica_manager.configuration.config import BrokerConfig
from replica_manager.security.dynamic_tls import ListenerSecurities
from tests.support.certificates import Authority, Identity
from zkcontroller.state_changes.record import StateChange

AUTHORITY = Authority()
PREFIX = "listener.name.tls."


def identity(name: str = "broker", *, hosts: bool = True, by: Authority = AUTHORITY) -> Identity:
    return by.sign((NameOID.COMMON_NAME, name), hosts=hosts)


class Files:
    """A listener TLS and, for brokers, PLAINTEXT; stores as PEM files."""

    def __init__(self, directory: Path, **properties: str) -> None:
        self.directory = directory
        self.first = identity()
        (directory / "trusted.pem").write_text(AUTHORITY.identity.certificate_pem)
        dotted = {name.replace("__", "."): value for name, value in properties.items()}
        self.config = BrokerConfig.parse(
            {
                "zookeeper.connect": "z:1",
                "listeners": "TLS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
                "listener.security.protocol.map": "TLS:SSL,PLAINTEXT:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                f"{PREFIX}ssl.keystore.type": "PEM",
                f"{PREFIX}ssl.keystore.location": str(self.first.write(directory, "first")),
                f"{PREFIX}ssl.truststore.type": "PEM",
                f"{PREFIX}ssl.truststore.location": str(directory / "trusted.pem"),
                **dotted,
            }
        )
        self.securities = ListenerSecurities(self.config)

    def with_store(self, store: Identity, **others: str) -> BrokerConfig:
        """The configuration with another key store."""
        location = str(store.write(self.directory, f"store-{serial_of(store)}"))
        return self.with_own({f"{PREFIX}ssl.keystore.location": location, **others})

    def with_own(self, own: dict[str, str]) -> BrokerConfig:
        return self.config.with_dynamic(default={}, own=own)

    def served(self) -> int:
        """The serial number of the certificate that a new client is shown."""
        tls = self.securities.server["TLS"].tls
        assert tls is not None
        client = ssl.create_default_context(cadata=AUTHORITY.identity.certificate_pem)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
        serving = tls.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(4):
            for side in (asking, serving):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        shown = asking.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number


class StateChanges:
    """No broker is started here."""

    def write(self, records: Sequence[StateChange]) -> None:
        assert not records


def serial_of(store: Identity) -> int:
    return store.certificate.serial_number


def test_a_new_key_store_is_served_to_those_who_come_afterwards(tmp_path: Path) -> None:
    files, second = Files(tmp_path), identity()
    before = files.served()

    files.securities.apply(files.with_store(second))
    after = files.served()
    files.securities.apply(files.config)

    assert (before, after) == (serial_of(files.first), serial_of(second))
    assert files.served() == serial_of(files.first)


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    files = Files(tmp_path)

    files.securities.check(files.with_store(identity()))

    assert files.served() == serial_of(files.first)


def test_a_file_that_was_replaced_is_read_again_when_asked(tmp_path: Path) -> None:
    files, second = Files(tmp_path), identity()
    shown = files.securities.server["TLS"].tls

    files.securities.reload(files.config)
    assert files.securities.server["TLS"].tls is shown, "the file is the same"
    second.write(tmp_path, "first")
    files.securities.reload(files.config)

    assert files.served() == serial_of(second)


@pytest.mark.parametrize(
    ("store", "why", "allowed_by"),
    [
        (identity("another"), "distinguished name of the old one", "ssl.allow.dn.changes"),
        (identity(hosts=False), "without DNSName:localhost", "ssl.allow.san.changes"),
    ],
)
def test_a_certificate_with_other_names_is_refused_unless_it_is_allowed(
    tmp_path: Path, store: Identity, why: str, allowed_by: str
) -> None:
    files = Files(tmp_path)

    for attempt in (files.securities.check, files.securities.apply):
        with pytest.raises(ConfigInvalid, match=why) as refused:
            attempt(files.with_store(store))
        assert refused.value.key == f"{PREFIX}ssl.keystore.location"
    assert files.served() == serial_of(files.first)

    allowing = Files(tmp_path, **{allowed_by: "true"})
    allowing.securities.apply(allowing.with_store(store))
    if "dn" in allowed_by:
        assert allowing.served() == serial_of(store)


def test_neither_case_nor_blanks_make_another_name(tmp_path: Path) -> None:
    files, second = Files(tmp_path), identity("BROKER")

    files.securities.apply(files.with_store(second))

    assert files.served() == serial_of(second)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({f"{PREFIX}ssl.keystore.location": "/nowhere"}, "readable"),
        ({f"{PREFIX}ssl.keystore.location": ""}, "cannot be removed"),
        ({f"{PREFIX}ssl.keystore.type": "PKCS12"}, "password"),
    ],
)
def test_a_store_that_cannot_be_used_is_refused_and_the_old_one_stays(
    tmp_path: Path, own: dict[str, str], why: str
) -> None:
    files = Files(tmp_path)

    for attempt in (files.securities.check, files.securities.apply):
        with pytest.raises(ConfigInvalid, match=why):
            attempt(files.with_own(own))

    assert files.served() == serial_of(files.first)


def test_a_trust_store_is_replaced_but_none_is_added(tmp_path: Path) -> None:
    other = Authority("Another")
    (tmp_path / "other.pem").write_text(other.identity.certificate_pem)
    own = {f"{PREFIX}ssl.truststore.location": str(tmp_path / "other.pem")}
    files = Files(tmp_path)
    without = Files(tmp_path, **{f"{PREFIX}ssl.truststore.location": ""})

    files.securities.apply(files.with_own(own))

    tls = files.securities.server["TLS"].tls
    assert tls is not None
    [trusted] = tls.get_ca_certs()
    assert "Another" in str(trusted["subject"])
    with pytest.raises(ConfigInvalid, match="cannot be added"):
        without.securities.check(without.with_own(own))


def test_on_the_listener_of_brokers_old_and_new_stores_must_trust_each_other(
    tmp_path: Path,
) -> None:
    stranger = identity(by=Authority("Another"))
    between = {"inter__broker__listener__name": "TLS", f"{PREFIX}ssl.client.auth": "required"}
    files = Files(tmp_path, **between)
    client = files.securities.client["TLS"]
    before = client.tls

    with pytest.raises(ConfigInvalid, match="trust each other"):
        files.securities.check(files.with_store(stranger))
    files.securities.apply(files.with_store(identity()))

    assert files.securities.client["TLS"] is client
    assert client.tls is not before


@pytest.mark.parametrize("client_auth", ["none", "required"])
def test_a_broker_whose_own_stores_do_not_trust_each_other_does_not_start(
    tmp_path: Path, client_auth: str
) -> None:
    """Source: Kafka ``SslFactory.configure``, which validates the stores against themselves."""
    other = tmp_path / "other.pem"
    other.write_text(Authority("Another").identity.certificate_pem)
    wrong = {
        f"{PREFIX}ssl.truststore.location": str(other),
        f"{PREFIX}ssl.client.auth": client_auth,
    }

    Files(tmp_path, **wrong)  # brokers do not use that listener
    with pytest.raises(ConfigInvalid, match=r"tls\.ssl\.keystore\.location: on the listener") as no:
        Files(tmp_path, inter__broker__listener__name="TLS", **wrong)

    assert "local issuer" in str(no.value)


def test_a_listener_of_brokers_that_is_replaced_for_one_that_lost_its_trust_is_refused(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path, inter__broker__listener__name="TLS")
    other = tmp_path / "other.pem"
    other.write_text(Authority("Another").identity.certificate_pem)

    with pytest.raises(ConfigInvalid, match="trust each other"):
        files.securities.check(files.with_own({f"{PREFIX}ssl.truststore.location": str(other)}))

    assert files.served() == serial_of(files.first)


def test_only_a_store_may_be_missing_until_zookeeper_is_asked(tmp_path: Path) -> None:
    files = Files(tmp_path)
    gone = {**files.config.originals, f"{PREFIX}ssl.keystore.location": str(tmp_path / "gone")}
    wrong = {**files.config.originals, f"{PREFIX}ssl.principal.mapping.rules": "RULE"}

    zookeeper_broker(BrokerConfig.parse(gone), state_changes=StateChanges())
    with pytest.raises(ConfigInvalid, match="mapping"):
        zookeeper_broker(BrokerConfig.parse(wrong), state_changes=StateChanges())


def test_what_is_no_store_stays_as_the_listener_was_made(tmp_path: Path) -> None:
    files, second = Files(tmp_path), identity()

    files.securities.apply(files.with_store(second, **{"ssl.client.auth": "required"}))

    assert files.served() == serial_of(second), "no certificate is asked for"
