"""The subject of a certificate as text in Java's format.

The ASN.1 tag of each value decides whether Java writes text or hexadecimal digits.  Java decodes
the bytes of every text as UTF-8, whatever the tag is.  A decoded name has neither the tags nor the
bytes, so the text is made from the encoded name.

Source: Java's ``X500Principal.getName`` (RFC 2253), ``sun.security.x509.AVA``.
"""

from __future__ import annotations

from typing import Final

from replica_manager.security.der import Element, InvalidDer, elements, only

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
_BLANKS: Final = " \r"
_VERSION_TAG: Final = 0xA0
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString.
_TEXT_TAGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate (DER) in Java's format: ``CN=alice,OU=sales,O=acme``.

    Raises InvalidDer.
    """
    try:
        signed = next(elements(only(certificate).content)).content
        fields = [field for field in elements(signed) if field.tag != _VERSION_TAG]
        subject = fields[4]  # after serial number, algorithm, issuer and validity
    except (IndexError, StopIteration):
        raise InvalidDer("the certificate ends before its subject") from None
    return name_text(subject.encoded)


def name_text(encoded: bytes) -> str:
    """The text of an encoded ``Name``.  Raises InvalidDer."""
    # The text begins with the most specific part, the certificate with the least specific one.
    return ",".join(
        "+".join(_attribute(attribute) for attribute in elements(relative.content))
        for relative in reversed(list(elements(only(encoded).content)))
    )


def _attribute(attribute: Element) -> str:
    try:
        type_id, value = elements(attribute.content)
    except ValueError:
        raise InvalidDer("a part of the name has no type or no value") from None
    dotted = _dotted(type_id.content)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or value.tag not in _TEXT_TAGS:
        return f"{keyword or dotted}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _dotted(object_id: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in object_id:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise InvalidDer("a part of the name has no type")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(value: str) -> str:
    """The value with Java's backslashes: before special characters, and blanks at its ends."""
    text = "".join(
        f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in value
    )
    inner = text.strip(_BLANKS)
    if not inner:
        return "".join(f"\\{blank}" for blank in text)
    start = text.index(inner)
    before, after = text[:start], text[start + len(inner) :]
    return "".join(f"\\{each}" for each in before) + inner + "".join(f"\\{each}" for each in after)
