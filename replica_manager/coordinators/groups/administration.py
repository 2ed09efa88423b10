"""ListGroups, DescribeGroups and DeleteGroups.

Source: Kafka ``GroupCoordinator`` (``handleListGroups``, ``handleDescribeGroup``,
``handleDeleteGroups``).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.events import Level
from replica_manager.coordinators.groups.expiry import GroupMetadataCleanup
from replica_manager.coordinators.groups.group import GroupMetadata, GroupState
from replica_manager.coordinators.groups.group_metadata_manager import GroupMetadataManager
from replica_manager.coordinators.groups.requests import DescribedGroup, GroupOverview

GROUP_TYPE: Final = "classic"
"""The only group type in ZooKeeper mode."""


class GroupDescriptions:
    """Lists, describes and deletes groups."""

    def __init__(self, manager: GroupMetadataManager, expiry: GroupMetadataCleanup) -> None:
        self._manager = manager
        self._expiry = expiry

    def overview(
        self, states: tuple[str, ...], types: tuple[str, ...]
    ) -> tuple[GroupOverview, ...]:
        """The groups with one of ``states`` and one of ``types``, for ListGroups.

        Case is ignored; an empty filter selects every group.
        """
        wanted_states = {state.lower() for state in states}
        wanted_types = {group_type.lower() for group_type in types}
        if wanted_types and GROUP_TYPE not in wanted_types:
            return ()
        return tuple(
            GroupOverview(group.group_id, group.protocol_type or "", group.state.label, GROUP_TYPE)
            for group in self._manager.groups.values()
            if not wanted_states or group.state.label.lower() in wanted_states
        )

    def describe(self, group_id: str) -> DescribedGroup:
        """Describes a group; a group that does not exist has the state Dead and no error."""
        group = self._manager.groups.get(group_id)
        if group is None:
            return DescribedGroup(group_id, ErrorCode.none, GroupState.DEAD.label)
        is_stable = group.state is GroupState.STABLE
        return DescribedGroup(
            group_id,
            ErrorCode.none,
            group.state.label,
            group.protocol_type or "",
            (group.protocol_name or "") if is_stable else "",
            group.described_members(),
        )

    def delete(self, group_ids: list[str]) -> dict[str, ErrorCode]:
        """Deletes those groups that are Empty, with their offsets; returns an error per group."""
        outcomes: dict[str, ErrorCode] = {}
        deleted: list[GroupMetadata] = []
        for group_id in group_ids:
            group = self._manager.groups.get(group_id)
            if group is None:
                outcomes[group_id] = ErrorCode.group_id_not_found
            elif group.state is GroupState.EMPTY:
                outcomes[group_id] = ErrorCode.none
                deleted.append(group)
            else:
                outcomes[group_id] = ErrorCode.non_empty_group
        if deleted:
            count = sum(self._expiry.delete_group(group) for group in deleted)
            names = ", ".join(group.group_id for group in deleted)
            self._manager.say(
                Level.INFO,
                f"The following groups were deleted: {names}. A total of {count} offsets were"
                " removed.",
            )
        return outcomes
