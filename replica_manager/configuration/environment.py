"""A broker's configuration from environment variables, with the names of Kafka's own images.

``KAFKA_ADVERTISED_LISTENERS`` sets ``advertised.listeners``: in the name of a variable ``_`` is a
dot, ``__`` an underscore and ``___`` a hyphen.  A value has the syntax of a value in
``server.properties``, with its escapes.

Source: Kafka 3.9 ``docker/resources/common-scripts/configure``,
``kafka.docker.KafkaDockerWrapper``.  Deviations: a value with a line break or with a backslash at
its end is refused, which in Kafka's image would change the next property of the file.  A key that
two variables set is refused.  ``zookeeper.clientCnxnSocket`` can be set, although the names of
variables cannot express capital letters.  The variables ``KAFKA_SSL_*_CREDENTIALS`` are not needed
for a key store without a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.properties import parse_properties
from replica_manager.regular_files import read_configured
from zkcontroller.state_changes.log_files import LEVELS

PREFIX: Final = "KAFKA_"
MAX_CREDENTIALS_BYTES: Final = 64 * 1024
"""The most bytes of a file with one password."""
_LISTENERS: Final = "KAFKA_LISTENERS"
_ADVERTISED: Final = "KAFKA_ADVERTISED_LISTENERS"
_ROOT_LEVEL: Final = "KAFKA_LOG4J_ROOT_LOGLEVEL"
_LOGGERS: Final = "KAFKA_LOG4J_LOGGERS"
JVM_OPTIONS: Final = "KAFKA_OPTS"
"""The variable with the options of Kafka's JVM."""
JAAS_FILE: Final = "java.security.auth.login.config"
"""The option, behind ``-D``, that names a JAAS file."""
_SECRET_FILES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
"""Variables that name a file in the secrets folder, with the key that gets the file's path."""
_SECRET_CONTENTS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}
"""Variables that name a file in the secrets folder, with the key that gets its content."""
_OF_THE_JVM: Final = frozenset(
    (
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        JVM_OPTIONS,
    )
)
_NO_PROPERTIES: Final = frozenset((_ROOT_LEVEL, _LOGGERS, "KAFKA_VERSION"))
_WITH_CAPITALS: Final = {key.lower(): key for key in BROKER_KEYS if key != key.lower()}
_ADVERTISED_HOST: Final = re.compile(r"://[^:]*:")


class EnvironmentConfig(NamedTuple):
    """The configuration in a set of environment variables."""

    properties: Mapping[str, str]
    """Keys and values as in ``server.properties``."""
    variables: Mapping[str, str]
    """Key to the variable that sets it, for error messages."""
    log_levels: Mapping[str, str]
    """Logger name to log4j level; the empty name is the root logger."""
    warnings: tuple[str, ...]


def property_name(variable: str) -> str:
    """The key that a variable sets: ``KAFKA_A_B__C___D`` is ``a.b_c-d``."""
    # Kafka's steps in Kafka's order, which matters for four or more underscores.
    name = variable.replace(PREFIX, "").lower()
    name = name.replace("_", ".").replace("...", "-").replace("..", "_")
    return _WITH_CAPITALS.get(name, name)


def variable_name(key: str) -> str:
    """The variable that sets a key: ``KAFKA_A_B__C___D`` for ``a.b_c-d``."""
    return PREFIX + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def read_environment(environment: Mapping[str, str], secrets: Path) -> EnvironmentConfig:
    """The configuration in the variables; ``secrets`` is the folder of key stores and passwords.

    Raises ConfigInvalid, which names the variable and shows no password.  Reads small files.
    """
    ours = {name: text for name, text in environment.items() if name.startswith(PREFIX)}
    if not ours.get(_LISTENERS) and ours.get(_ADVERTISED):
        # Listen on all interfaces, on the ports of the advertised listeners.
        ours[_LISTENERS] = _ADVERTISED_HOST.sub("://0.0.0.0:", ours[_ADVERTISED])
    read: dict[str, str] = {}
    variables: dict[str, str] = {}
    warnings: list[str] = []
    for variable in sorted(ours):
        text = ours[variable]
        if variable in _NO_PROPERTIES:
            continue
        if variable in _OF_THE_JVM:
            if text:
                but = " but for its JAAS file" * (variable == JVM_OPTIONS and JAAS_FILE in text)
                warnings.append(f"{variable} has no effect{but}: there is no JVM in this process")
            continue
        if variable in _SECRET_FILES:
            key, text = _SECRET_FILES[variable], str(_secret_path(variable, text, secrets))
        elif variable in _SECRET_CONTENTS:
            key, text = _SECRET_CONTENTS[variable], _secret_text(variable, text, secrets)
        else:
            key = property_name(variable)
        if key in variables:
            raise ConfigInvalid(variable, "[hidden]", f"one variable for {key}: {variables[key]}")
        read[key] = _value(variable, key, text)
        variables[key] = variable
    return EnvironmentConfig(read, variables, _log_levels(ours), tuple(warnings))


def _value(variable: str, key: str, text: str) -> str:
    """The value with its escapes resolved, as if it was read from a properties file."""
    if not key:
        raise ConfigInvalid(variable, "[hidden]", f"the name of a key behind {PREFIX}")
    # In Kafka's file, a backslash at the end (an odd number of them) would join the next line.
    if (len(text) - len(text.rstrip("\\"))) % 2:
        raise ConfigInvalid(variable, "[hidden]", "no single backslash at the end")
    try:
        properties = parse_properties(f"{key}={text}")
    except ConfigInvalid as refused:
        raise ConfigInvalid(variable, "[hidden]", refused.allowed) from None
    if list(properties) != [key]:
        raise ConfigInvalid(
            variable, "[hidden]", r"a name of letters, and a value of one line (\n is a line break)"
        )
    return properties[key]


def _secret_path(variable: str, name: str, secrets: Path) -> Path:
    path = secrets / name
    if not name or not path.is_file():
        raise ConfigInvalid(variable, name, f"the name of a file in {secrets}")
    return path


def _secret_text(variable: str, name: str, secrets: Path) -> str:
    path = _secret_path(variable, name, secrets)
    try:
        text = read_configured(path, MAX_CREDENTIALS_BYTES).decode()
    except OSError as failure:
        raise ConfigInvalid(variable, name, f"a readable file ({failure.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigInvalid(variable, name, "a file of text in UTF-8") from None
    return text.rstrip("\n")


def _log_levels(ours: Mapping[str, str]) -> dict[str, str]:
    levels: dict[str, str] = {}
    if root := ours.get(_ROOT_LEVEL):
        levels[""] = _level(_ROOT_LEVEL, root)
    for pair in filter(None, ours.get(_LOGGERS, "").split(",")):
        logger, equals, level = pair.partition("=")
        if not equals or not logger.strip():
            raise ConfigInvalid(_LOGGERS, pair, "pairs LOGGER=LEVEL, separated by commas")
        levels[logger.strip()] = _level(_LOGGERS, level)
    return levels


def _level(variable: str, text: str) -> str:
    level = text.strip().upper()
    if level not in LEVELS:
        raise ConfigInvalid(variable, text, f"a level out of {', '.join(LEVELS)}")
    return level
