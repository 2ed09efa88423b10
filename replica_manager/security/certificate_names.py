"""The subject of a certificate as Java writes it.

Of its own, because ``cryptography`` takes ten megabytes: only a node that is shown a certificate
loads it.

Source: Java's ``X500Principal.getName`` (RFC 2253).
"""

from __future__ import annotations

from typing import Final

from cryptography import x509

# Attribute types that RFC 2253 gives a name; Java writes all others as numbers.
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate (DER) as Java names it: ``CN=alice,OU=sales,O=acme``."""
    subject = x509.load_der_x509_certificate(certificate).subject
    # The most specific part comes first, the other way round than in the certificate.
    return ",".join(
        "+".join(_attribute(attribute) for attribute in relative)
        for relative in reversed(list(subject.rdns))
    )


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid.dotted_string)
    if keyword is None or not isinstance(attribute.value, str):
        return f"{attribute.oid.dotted_string}=#{_der_value(attribute).hex()}"
    return f"{keyword}={_escaped(attribute.value)}"


def _der_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """The value as it stands in the certificate, with its ASN.1 tag and length."""
    whole = x509.Name([attribute]).public_bytes()
    # SEQUENCE { SET { SEQUENCE { OID, value } } }
    content = _content(_content(_content(whole)))
    return content[len(content) - len(_after_first(content)) :]


def _content(der: bytes) -> bytes:
    return der[_header_size(der) :]


def _header_size(der: bytes) -> int:
    return 2 if der[1] < 0x80 else 2 + (der[1] & 0x7F)


def _after_first(der: bytes) -> bytes:
    # An object identifier is always shorter than 128 bytes.
    return der[2 + der[1] :]


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in _ESCAPED else each for each in value)
    if text.startswith(" "):
        text = f"\\{text}"
    if len(value) > 1 and text.endswith(" "):
        text = f"{text[:-1]}\\ "
    return text
