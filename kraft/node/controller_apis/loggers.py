"""The levels of this node's own loggers, which IncrementalAlterConfigs changes while it runs.

No record contains them: each node changes its own levels, whether it is the active controller or
not.

Source: Kafka ``RuntimeLoggerManager``, ``ControllerApis.handleIncrementalAlterConfigs`` (KIP-412).
"""

from __future__ import annotations

import logging
from typing import Final

from kafka_common.acls import AclOperation
from kafka_common.api_error import NO_ERROR, ApiError
from kafka_common.model import OpType
from kafka_common.protocol import request_types
from kraft.node.controller_apis.call import Call
from kraft.node.controller_apis.refusals import CLUSTER_REFUSED
from replica_manager.request_errors import RequestRefused
from replica_manager.server.configs.key_changes import KeyChange
from replica_manager.server.configs.log_levels import change_levels, check_levels, check_node

_log: Final = logging.getLogger("kafka.server.ControllerApis")


def alter_loggers(
    resource: request_types.IncrementalAlterConfigsAlterConfigsResource,
    call: Call,
    *,
    validate_only: bool,
) -> ApiError:
    """Changes the levels in that resource of the request, all or none; returns the result."""
    if not call.permissions.allow_on_cluster(AclOperation.CLUSTER_ACTION):
        return CLUSTER_REFUSED
    changes = [KeyChange(each.name, each.config_operation, each.value) for each in resource.configs]
    try:
        check_node(resource.resource_name, call.services.node.config.broker_id)
        check_levels(changes)
    except RequestRefused as refused:
        return ApiError(refused.error, refused.message)
    if not validate_only:
        change_levels(changes)
        for change in changes:
            if change.operation == OpType.SET:
                _log.warning("Updated the log level of %s to %s", change.name, change.value)
            else:
                _log.warning("Unset the log level of %s", change.name)
    return NO_ERROR
