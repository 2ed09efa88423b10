"""The table of handlers of a broker in ZooKeeper mode, one for each supported API.

Another source of metadata has another table; :mod:`.dispatch` gets the table with the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import ModuleType
from typing import Final, cast

from replica_manager.server import handlers
from replica_manager.server.context import Handler
from replica_manager.server.handlers import (  # noqa: F401 - read from the globals below
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    envelope,
    expire_delegation_token,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_features,
    update_metadata,
    write_txn_markers,
)

_MODULES = [
    value
    for value in globals().values()
    # With a plugin of pytest, this module's globals may contain modules of pytest.
    if isinstance(value, ModuleType) and value.__name__.startswith(f"{handlers.__name__}.")
]
HANDLERS: Final[Mapping[int, Handler]] = {
    int(handler.API_KEY): handler
    for handler in sorted(cast("list[Handler]", _MODULES), key=attrgetter("API_KEY"))
}
"""The imported handlers by API key."""
