"""From ``server.properties`` to TLS, SASL and rules: what is taken, and what is refused and how."""

from __future__ import annotations

import contextlib
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import NameOID

from kafka_common.errors import ConfigInvalid
from kafka_common.net.client_security import ClientSecurity, Credentials
from kafka_common.protocol.oauthbearer import OAUTHBEARER
from replica_manager.configuration.config import BrokerConfig
from replica_manager.security.certificate_names import distinguished_name
from replica_manager.security.der import InvalidDer
from replica_manager.security.jaas import parse_jaas
from replica_manager.security.key_material import (
    KeyStoreSettings,
    TrustStoreSettings,
    load_key_store,
    load_trust_store,
)
from replica_manager.security.logins import module_of
from replica_manager.security.oauth_settings import HANDLERS, SERVER_HANDLER
from replica_manager.security.oauth_tokens import IllegalToken
from replica_manager.security.principals import SslPrincipalMapper
from replica_manager.security.settings import (
    INTER_BROKER_MECHANISM,
    ListenerSecurity,
    SecuredListener,
    authorizer_settings,
    security_of,
)
from tests.support.certificates import Authority, Identity
from tests.support.paths import DATA
from tests.support.token_issuer import TokenIssuer

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
AUTHORITY = Authority()
SERVER = AUTHORITY.sign((NameOID.COMMON_NAME, "broker"), hosts=True)
CHAIN = SERVER.certificate_pem
TRUSTED = AUTHORITY.identity.certificate_pem


def config(**properties: str) -> BrokerConfig:
    dotted = {name.replace("__", "."): value for name, value in properties.items()}
    return BrokerConfig.parse({"zookeeper.connect": "z:1", **dotted})


def listener_security(of: BrokerConfig) -> dict[str, ListenerSecurity]:
    """How clients connect, by listener name."""
    return security_of(of, of.listeners.bound)


def client_security(of: BrokerConfig, listener_name: str) -> ClientSecurity:
    """How this broker connects to others on that listener of theirs."""
    endpoint = next(each for each in of.listeners.bound if each.listener_name == listener_name)
    return SecuredListener(of, endpoint).client(INTER_BROKER_MECHANISM, must_be_enabled=True)


def pem(**others: str) -> dict[str, str]:
    """An SSL listener whose keys stand in the configuration itself."""
    return {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": SERVER.key_pem(),
        "ssl.keystore.certificate.chain": CHAIN,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": TRUSTED,
        **others,
    }


def sasl(**others: str) -> dict[str, str]:
    """A SASL_PLAINTEXT listener with PLAIN."""
    jaas = f'{PLAIN_MODULE} required username="b" password="c" user_b="c" user_alice="d";'
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        **others,
    }


# JAAS


def test_jaas_is_read_with_quotes_escapes_and_comments() -> None:
    entry = parse_jaas(
        "k",
        f"""{PLAIN_MODULE} required // a comment
            username="al\\"ice" password='sec;ret=1' /* another
            one */ user_x="1"
            debug=true ;""",
    )

    assert entry.module == PLAIN_MODULE
    assert entry.options["username"] == 'al"ice'
    assert entry.options["password"] == "sec;ret=1"
    assert entry.options["debug"] == "true"
    assert entry.users == {"x": "1"}
    assert "sec;ret" not in repr(entry)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Module",
        'Module sometimes a="secret-b";',
        'Module required a="secret-b"',
        "Module required a;",
        'Module required a="secret-b" c;',
        'Module required a="secret-b"; Module required;',
        'Module required a="secret-b',
    ],
)
def test_what_is_no_jaas_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_jaas("the.key", text)

    assert refused.value.key == "the.key"
    assert "secret" not in str(refused.value)


# Key stores


def test_a_key_comes_from_text_from_pem_files_and_from_pkcs12(tmp_path: Path) -> None:
    both = SERVER.write(tmp_path, "server")
    locked = tmp_path / "locked.pem"
    locked.write_text(f"Bag Attributes: x\n{SERVER.key_pem('pass')}{CHAIN}{TRUSTED}")
    store = tmp_path / "server.p12"
    store.write_bytes(SERVER.pkcs12("storepass", AUTHORITY.identity))

    text = KeyStoreSettings(store_type="PEM", private_key=SERVER.key_pem(), certificate_chain=CHAIN)
    found = load_key_store(text)
    assert found is not None
    for settings in (
        KeyStoreSettings(store_type="PEM", location=str(both)),
        KeyStoreSettings(store_type="PEM", location=str(locked), key_password="pass"),
        # Java, too, reads PKCS12 where the configuration says JKS.
        KeyStoreSettings(store_type="JKS", location=str(store), password="storepass"),
        KeyStoreSettings(store_type="PKCS12", location=str(store), password="storepass"),
    ):
        other = load_key_store(settings)
        assert other is not None
        assert other.private_key == found.private_key
        assert other.chain.startswith(CHAIN.encode().strip())
    assert load_key_store(KeyStoreSettings()) is None


def test_trust_comes_from_text_from_pem_files_and_from_pkcs12(tmp_path: Path) -> None:
    file = tmp_path / "trusted.pem"
    file.write_text(TRUSTED)
    store = tmp_path / "trusted.p12"
    store.write_bytes(AUTHORITY.identity.pkcs12("storepass"))

    assert load_trust_store(TrustStoreSettings()) is None
    for settings in (
        TrustStoreSettings(store_type="PEM", certificates=TRUSTED),
        TrustStoreSettings(store_type="PEM", location=str(file)),
        TrustStoreSettings(location=str(store), password="storepass"),
    ):
        assert (load_trust_store(settings) or "").strip() == TRUSTED.strip()


def test_jceks_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    jceks = tmp_path / "server.jceks"
    jceks.write_bytes(b"\xce\xce\xce\xce\0\0\0\2")

    with pytest.raises(ConfigInvalid, match="keytool -importkeystore") as refused:
        load_key_store(KeyStoreSettings("p.", location=str(jceks), password="s3cret"))
    assert refused.value.key == "p.ssl.keystore.location"
    with pytest.raises(ConfigInvalid, match="keytool -importkeystore"):
        load_trust_store(TrustStoreSettings(location=str(jceks)))


def test_a_pem_file_without_its_type_is_refused_with_the_type_that_it_needs(
    tmp_path: Path,
) -> None:
    file = tmp_path / "authority.pem"
    file.write_text(TRUSTED)

    with pytest.raises(ConfigInvalid, match=r"this one needs p\.ssl\.truststore\.type=PEM"):
        load_trust_store(TrustStoreSettings("p.", location=str(file)))
    with pytest.raises(ConfigInvalid, match=r"this one needs ssl\.keystore\.type=PEM"):
        load_key_store(KeyStoreSettings(location=str(file), password="s3cret"))


@pytest.mark.parametrize(
    ("settings", "key", "allowed"),
    [
        ({"private_key": "x"}, "ssl.keystore.key", "PEM"),
        ({"store_type": "PEM", "private_key": "x"}, "ssl.keystore.key", "certificate.chain"),
        ({"certificate_chain": "x"}, "ssl.keystore.certificate.chain", "ssl.keystore.key"),
        ({"password": "s3cret"}, "ssl.keystore.password", "location"),
        ({"location": "/none"}, "ssl.keystore.password", "a password"),
        ({"location": "/none", "password": "s3cret"}, "ssl.keystore.location", "readable"),
        ({"store_type": "PEM", "location": "/none"}, "ssl.keystore.location", "readable"),
        (
            {"store_type": "PEM", "private_key": SERVER.key_pem("a"), "certificate_chain": CHAIN},
            "ssl.key.password",
            "the password",
        ),
        (
            {"store_type": "PEM", "private_key": CHAIN, "certificate_chain": CHAIN},
            "ssl.keystore.key",
            "exactly one private key",
        ),
        (
            {
                "store_type": "PEM",
                "private_key": SERVER.key_pem(),
                "certificate_chain": SERVER.key_pem(),
            },
            "ssl.keystore.certificate.chain",
            "at least one certificate",
        ),
    ],
)
def test_a_key_store_that_cannot_be_is_refused_and_shows_nothing(
    settings: dict[str, str], key: str, allowed: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        load_key_store(KeyStoreSettings(**settings))

    assert refused.value.key == key
    assert allowed in refused.value.allowed
    assert "s3cret" not in str(refused.value)
    assert "BEGIN" not in str(refused.value)


def test_a_wrong_password_of_a_store_is_named_as_such(tmp_path: Path) -> None:
    store = tmp_path / "server.p12"
    store.write_bytes(SERVER.pkcs12("storepass"))

    with pytest.raises(ConfigInvalid, match="the password that belongs to it"):
        load_key_store(KeyStoreSettings(location=str(store), password="wrong"))


def test_a_chain_signed_with_sha1_is_served_and_the_log_says_how_to_do_better(
    caplog: pytest.LogCaptureFixture,
) -> None:
    location = DATA / "signed-with-sha1.pem"
    settings = pem(ssl__keystore__location=str(location), ssl__truststore__location=str(location))
    for key in (
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.certificates",
    ):
        del settings[key]
    made = config(**settings)

    server = listener_security(made)["SSL"].tls
    client = client_security(made, "SSL").tls

    assert server is not None
    assert client is not None
    client.check_hostname = False
    assert shake_hands(server, client) == "An authority of sha1"
    assert "ssl.keystore.location holds a certificate that is signed with SHA-1" in caplog.text
    assert "signed anew, with SHA-256" in caplog.text


def test_a_chain_signed_with_md5_is_refused_with_what_is_wrong() -> None:
    location = DATA / "signed-with-md5.pem"
    settings = pem(ssl__keystore__location=str(location))
    for key in ("ssl.keystore.key", "ssl.keystore.certificate.chain"):
        del settings[key]

    with pytest.raises(ConfigInvalid, match="weakest signature by md5") as refused:
        listener_security(config(**settings))

    assert refused.value.key == "listener.name.ssl.ssl.keystore.location"


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """A handshake in memory; the common name of the authority that signed the server's key."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server)
    for _ in range(4):
        for side in (asking, serving):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    certificate = asking.getpeercert()
    assert certificate is not None
    issuer: Any = certificate["issuer"]
    return str(issuer[0][0][1])


# Listeners


def test_tls_is_as_strict_as_the_listener_says() -> None:
    security = listener_security(
        config(
            **pem(
                **{
                    "listeners": "SSL://127.0.0.1:0,STRICT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
                    "listener.security.protocol.map": "SSL:SSL,STRICT:SSL,SASL_SSL:SASL_SSL",
                    "ssl.client.auth": "requested",
                    "listener.name.strict.ssl.client.auth": "required",
                    "listener.name.strict.ssl.enabled.protocols": "TLSv1.3",
                    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                }
            )
        )
    )

    contexts = {name: each.tls for name, each in security.items()}
    loose, strict, with_sasl = contexts["SSL"], contexts["STRICT"], contexts["SASL_SSL"]
    assert loose is not None
    assert strict is not None
    assert with_sasl is not None
    assert loose.verify_mode is ssl.CERT_OPTIONAL
    assert loose.minimum_version is ssl.TLSVersion.TLSv1_2
    assert strict.verify_mode is ssl.CERT_REQUIRED
    assert strict.minimum_version is ssl.TLSVersion.TLSv1_3
    # A broker-wide value is for listeners without SASL.
    assert with_sasl.verify_mode is ssl.CERT_NONE


def test_a_broker_logs_in_at_others_as_its_own_listener_would_have_it() -> None:
    plain = config(**sasl())
    secured = config(**pem())
    unchecked = config(**pem(**{"ssl.endpoint.identification.algorithm": ""}))

    assert client_security(plain, "SASL_PLAINTEXT").credentials == Credentials("PLAIN", "b", "c")
    checking = client_security(secured, "SSL").tls
    trusting = client_security(unchecked, "SSL").tls
    assert checking is not None
    assert trusting is not None
    assert (checking.check_hostname, trusting.check_hostname) == (True, False)
    assert trusting.verify_mode is ssl.CERT_REQUIRED


def test_mechanisms_and_sessions_are_a_listeners_own() -> None:
    prefix = "listener.name.sasl_plaintext."
    security = listener_security(
        config(
            **sasl(
                **{
                    "sasl.enabled.mechanisms": "GSSAPI",
                    f"{prefix}sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
                    "connections.max.reauth.ms": "1000",
                    f"{prefix}plain.connections.max.reauth.ms": "2000",
                }
            )
        )
    )["SASL_PLAINTEXT"].sasl

    assert security is not None
    assert sorted(security.mechanisms) == ["PLAIN", "SCRAM-SHA-512"]
    assert security.max_reauth_ms == {"PLAIN": 2000, "SCRAM-SHA-512": 1000}
    assert security.plain_users == {"b": "c", "alice": "d"}
    assert "'d'" not in repr(security)


@pytest.mark.parametrize("handler", HANDLERS[SERVER_HANDLER])
def test_a_listener_for_signed_tokens_knows_the_keys_of_their_issuer(
    handler: str, tmp_path: Path
) -> None:
    prefix = "listener.name.sasl_plaintext.oauthbearer."
    issuer = TokenIssuer()
    (tmp_path / "keys.json").write_text(json.dumps(issuer.key_set()))
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{prefix}sasl.jaas.config": f"{module_of(OAUTHBEARER)} required;",
        f"{prefix}{SERVER_HANDLER}": handler,
        # A key of the mechanism takes precedence over that of all listeners.
        f"{prefix}sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
        "sasl.oauthbearer.jwks.endpoint.url": "file:/missing",
    }
    security = listener_security(config(**sasl(**properties)))["SASL_PLAINTEXT"].sasl

    assert security is not None
    assert security.validate_token is not None
    assert security.validate_token(issuer.token(aud=None)).principal_name == "alice"
    with pytest.raises(IllegalToken):
        security.validate_token(issuer.token("unknown", aud=None))

    properties[f"{prefix}{SERVER_HANDLER}"] = f"{handler}2"
    with pytest.raises(ConfigInvalid, match="cannot be loaded"):
        listener_security(config(**sasl(**properties)))


@pytest.mark.parametrize(
    ("properties", "key", "allowed"),
    [
        (sasl(**{"sasl.enabled.mechanisms": "GSSAPI"}), "sasl.enabled.mechanisms", "PLAIN"),
        (
            sasl(**{"sasl.enabled.mechanisms": "OAUTHBEARER"}),
            "oauthbearer.sasl.jaas.config",
            "login module",
        ),
        (
            sasl(**{"listener.name.sasl_plaintext.plain.sasl.jaas.config": "x"}),
            "plain.sasl.jaas.config",
            "LoginModule",
        ),
        (
            sasl(
                **{
                    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                        f"{SCRAM_MODULE} required;"
                    )
                }
            ),
            "plain.sasl.jaas.config",
            "PlainLoginModule",
        ),
        (
            sasl(**{"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-256"}),
            "sasl.mechanism.inter.broker.protocol",
            "sasl.enabled.mechanisms",
        ),
        (
            sasl(**{"sasl.mechanism.inter.broker.protocol": "GSSAPI"}),
            "sasl.mechanism.inter.broker.protocol",
            "out of",
        ),
        (
            sasl(**{"listener.name.sasl_plaintext.plain.sasl.server.callback.handler.class": "X"}),
            "plain.sasl.server.callback.handler.class",
            "cannot be loaded",
        ),
        (pem(**{"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}), "ssl.cipher.suites", "OpenSSL"),
        (pem(**{"ssl.engine.factory.class": "X"}), "ssl.engine.factory.class", "cannot be loaded"),
        (pem(**{"ssl.enabled.protocols": "SSLv3"}), "ssl.enabled.protocols", "TLSv1.2"),
        (pem(**{"ssl.enabled.protocols": "TLSv1.1,TLSv1.3"}), "ssl.enabled.protocols", "gap"),
        (
            pem(**{"ssl.endpoint.identification.algorithm": "ldap"}),
            "ssl.endpoint.identification.algorithm",
            "https",
        ),
        (pem(**{"ssl.principal.mapping.rules": "RULE:x"}), "ssl.principal.mapping.rules", "RULE"),
        (
            {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"},
            "ssl.keystore.location",
            "shows clients a certificate",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_begins(
    properties: dict[str, str], key: str, allowed: str
) -> None:
    def begin() -> None:
        broken = config(**properties)
        listener_security(broken)
        client_security(broken, broken.listeners.inter_broker)

    with pytest.raises(ConfigInvalid) as refused:
        begin()

    assert refused.value.key.endswith(key)
    assert allowed in refused.value.allowed


def test_a_key_that_does_not_fit_its_certificate_is_refused() -> None:
    other: Identity = AUTHORITY.sign((NameOID.COMMON_NAME, "other"))

    with pytest.raises(ConfigInvalid, match="fits its certificate"):
        listener_security(config(**pem(**{"ssl.keystore.key": other.key_pem()})))


def test_only_kafkas_own_authorizer_for_zookeeper_is_known() -> None:
    known = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}

    assert authorizer_settings(config()) is None
    settings = authorizer_settings(
        config(**known, super__users="User:a", allow__everyone__if__no__acl__found="TRUE")
    )
    assert settings is not None
    assert settings.super_users == {("User", "a")}
    assert settings.allow_everyone_if_no_acl_found
    assert config(**known, super__users="User:a").warnings == ()
    with pytest.raises(ConfigInvalid, match="AclAuthorizer"):
        authorizer_settings(config(authorizer__class__name="org.example.Mine"))
    with pytest.raises(ConfigInvalid, match="broker's ZooKeeper"):
        authorizer_settings(config(**known, authorizer__zookeeper__url="z:2"))


# Names


def test_a_certificates_name_is_written_as_java_writes_it() -> None:
    identity = AUTHORITY.sign(
        (NameOID.EMAIL_ADDRESS, "a@b.c"),
        (NameOID.SERIAL_NUMBER, "77"),
        (NameOID.COMMON_NAME, "#hash;x<y>z=\\ü漢"),
        (NameOID.ORGANIZATION_NAME, ' lead #x "q" '),
        (NameOID.LOCALITY_NAME, " "),
    )

    assert distinguished_name(identity.der) == (
        'L=\\ ,O=\\ lead \\#x \\"q\\"\\ ,CN=\\#hash\\;x\\<y\\>z\\=\\\\ü漢,2.5.4.5=#13023737,'
        "1.2.840.113549.1.9.1=#16056140622e63"
    )


def test_a_certificate_that_ends_too_early_has_no_name() -> None:
    der = AUTHORITY.sign((NameOID.COMMON_NAME, "a")).der

    for size in range(0, 80, 7):
        with pytest.raises(InvalidDer):
            distinguished_name(der[:size])


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        # U+212A is a Kelvin sign, whose lower case is k: in Java it is no \\w.
        (r"RULE:^CN=(\w+)$/$1/L", "CN=\u212aafka", None),
        (r"RULE:^CN=(\d+)$/$1/", "CN=\u0661", None),
        (r"RULE:^CN=(\w+)$/$1/L", "CN=KAFKA", "kafka"),
        (r"RULE:^CN=(.*)$/$1/", "CN=admin\rx", None),
        (r"RULE:^CN=(.*)$/$1/", "CN=admin\u2028", None),
        (r"RULE:^CN=([.]x\.)$/$1/", "CN=.x.", ".x."),
    ],
)
def test_a_mapping_rule_matches_what_it_matches_in_java(
    rules: str, name: str, expected: str | None
) -> None:
    assert SslPrincipalMapper(rules).name_of(name) == expected


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # What Kafka 3.9.1 makes of CN=kafkaUser,OU=ServiceUsers,O=Unknown.
        ("DEFAULT", "CN=kafkaUser,OU=ServiceUsers,O=Unknown"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "kafkaUser"),
        (r"RULE:^CN=(.*?),OU=Other.*$/$1/ , RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "kafkauser"),
        (r"RULE:^CN=(.*?),.*$/$1@$4/U", "KAFKAUSER@$4"),
        (r"RULE:^CN=(\w+),.*$/$12x/", "kafkaUser2x"),
        ("RULE:.*/user/", "useruser"),
        ("RULE:x/y/", None),
    ],
)
def test_names_are_mapped_as_kafka_maps_them(rules: str, expected: str | None) -> None:
    name = "CN=kafkaUser,OU=ServiceUsers,O=Unknown"

    assert SslPrincipalMapper(rules).name_of(name) == expected
