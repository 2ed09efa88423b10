"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter (80, 81, 82): refused, voters are static.

While kraft.version is 0, Kafka's leader refuses each such request after it has checked it.  This
leader does the same, with the checks in the same order.

Source: Kafka ``KafkaRaftClient.handleAddVoterRequest`` and its neighbours, ``AddVoterHandler``,
``RemoveVoterHandler``, ``UpdateVoterHandler`` (KIP-853).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.api_error import ApiError, ApiException
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from kraft.node.controller_apis.call import Call, ControllerApi, LocalNode

_Endpoints: TypeAlias = "request_types.AddRaftVoterRequest | request_types.UpdateRaftVoterRequest"
_Request: TypeAlias = "_Endpoints | request_types.RemoveRaftVoterRequest"
_NO_LEADER: Final = -1
_NOTHING_COMMITTED: Final = ApiError(
    ErrorCode.request_timed_out,
    "Request timed out waiting for leader to establish HWM and fence previous voter changes",
)


async def _add(request: request_types.AddRaftVoterRequest, call: Call) -> ResponsePayload:
    node = call.services.node
    error = _early_error(request, call)
    if error is None and not _is_voter_named(request):
        error = ApiError(
            ErrorCode.invalid_request, "Add voter request didn't include a valid voter"
        )
    if error is None and not _has_endpoint(request, node):
        named = ", ".join(f"{e.name}={e.host}:{e.port}" for e in request.listeners)
        error = ApiError(
            ErrorCode.invalid_request,
            f"Add voter request didn't include the endpoint ({named}) for the default listener "
            f"{node.listener_name}",
        )
    return _response(ApiKey.ADD_RAFT_VOTER, call, error or _late_error(node, "adding"))


async def _remove(request: request_types.RemoveRaftVoterRequest, call: Call) -> ResponsePayload:
    error = _early_error(request, call)
    if error is None and not _is_voter_named(request):
        error = ApiError(
            ErrorCode.invalid_request, "Remove voter request didn't include a valid voter"
        )
    late = _late_error(call.services.node, "removing")
    return _response(ApiKey.REMOVE_RAFT_VOTER, call, error or late)


async def _update(request: request_types.UpdateRaftVoterRequest, call: Call) -> ResponsePayload:
    node = call.services.node
    error = _early_error(request, call, epoch=request.current_leader_epoch)
    levels = request.k_raft_version_feature
    is_whole = _is_voter_named(request) and _has_endpoint(request, node)
    if error is None and not (
        is_whole and 0 <= levels.min_supported_version <= levels.max_supported_version
    ):
        error = ApiError(ErrorCode.invalid_request)
    schema = response_schema(ApiKey.UPDATE_RAFT_VOTER, call.version)
    leader_id, epoch = node.raft.leader_and_epoch
    endpoint = None
    if leader_id is not None and call.context.listener_name == node.listener_name:
        endpoint = node.raft.voters.endpoints.get(leader_id)
    return schema.response(
        error_code=(error or _late_error(node, "updating")).error,
        current_leader=schema.part(
            "CurrentLeader",
            leader_id=_NO_LEADER if leader_id is None else leader_id,
            leader_epoch=epoch,
            host="" if endpoint is None else endpoint.host,
            port=0 if endpoint is None else endpoint.port,
        ),
    )


def _early_error(request: _Request, call: Call, *, epoch: int | None = None) -> ApiError | None:
    """The error from the checks that all requests share; an ``epoch`` of None is not checked."""
    node = call.services.node
    try:
        call.check()
    except ApiException as refused:
        return refused.to_error()
    if request.cluster_id not in (None, node.cluster_id):
        return ApiError(
            ErrorCode.inconsistent_cluster_id,
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id '
            f'"{node.cluster_id}"',
        )
    own_epoch = node.raft.epoch
    if epoch is not None and epoch < own_epoch:
        return ApiError(ErrorCode.fenced_leader_epoch, "")
    if epoch is not None and epoch > own_epoch:
        return ApiError(ErrorCode.unknown_leader_epoch, "")
    if not node.raft.is_leader:
        return ApiError(ErrorCode.not_leader_or_follower, "")
    return None


def _is_voter_named(request: _Request) -> bool:
    return request.voter_id >= 0 and request.voter_directory_id is not None


def _has_endpoint(request: _Endpoints, node: LocalNode) -> bool:
    return any(listener.name == node.listener_name for listener in request.listeners)


def _late_error(node: LocalNode, doing: str) -> ApiError:
    """The error for a request that passed all checks."""
    if node.raft.high_watermark is None:
        return _NOTHING_COMMITTED
    return ApiError(
        ErrorCode.unsupported_version,
        f"Cluster doesn't support {doing} voter because the kraft.version feature is 0",
    )


def _response(api_key: ApiKey, call: Call, error: ApiError) -> ResponsePayload:
    return response_schema(api_key, call.version).response(
        error_code=error.error, error_message=error.message
    )


VOTER_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.ADD_RAFT_VOTER: ControllerApi(0, 0, _add, AclOperation.ALTER),
    ApiKey.REMOVE_RAFT_VOTER: ControllerApi(0, 0, _remove, AclOperation.ALTER),
    ApiKey.UPDATE_RAFT_VOTER: ControllerApi(0, 0, _update, AclOperation.CLUSTER_ACTION),
}
