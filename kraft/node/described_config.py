"""A controller's configuration in the form of a broker's, for DescribeConfigs.

Kafka uses one class for both configurations.

Source: Kafka ``KafkaConfig``.
"""

from __future__ import annotations

from typing import Final

from kafka_common.protocol.inter_broker_versions import LATEST, version_of
from kraft.node.controller_config import ControllerServerConfig
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.listeners import Listeners

_NODE_ID: Final = "node.id"
_BROKER_ID: Final = "broker.id"

UNCONFIGURED: Final = BrokerConfig(
    originals={},
    values={name: key.default for name, key in BROKER_KEYS.items()},
    listeners=Listeners((), (), "", None),
    log_dirs=(),
    inter_broker_version=LATEST,
)
"""The configuration of a node without a file: every key has its default."""


def described_config(config: ControllerServerConfig) -> BrokerConfig:
    """A valid controller configuration, in the form that DescribeConfigs needs."""
    return BrokerConfig(
        originals=config.originals,
        values={**config.values, _NODE_ID: config.node_id, _BROKER_ID: config.node_id},
        listeners=Listeners(config.listeners, config.advertised, config.listener_name, None),
        log_dirs=config.log_dirs,
        inter_broker_version=version_of(str(config.values["inter.broker.protocol.version"])),
    )
