"""Fetch sessions on the client's side: what the next Fetch request must contain.

A follower has one :class:`FetchSessionHandler` per connection to a leader.  It passes the handler
all the partitions it wants; the handler returns what the leader does not know yet.  After an error,
a lost connection or a response that does not fit the request, the next request closes the session
and names every partition again.  So the two sides cannot disagree for long.

Source: Kafka 3.9 ``FetchSessionHandler`` (KIP-227), ``FetchMetadata``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.observability.prefixed_log import PrefixedLog
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.replication.fetch_values import (
    FINAL_SESSION_EPOCH,
    FIRST_TOPIC_ID_VERSION,
    INITIAL_SESSION_EPOCH,
    NO_SESSION,
    FetchMetadata,
    TopicIdPartition,
    next_session_epoch,
)

_logger = logging.getLogger("org.apache.kafka.clients.FetchSessionHandler")


class FetchSessionRequest(NamedTuple):
    """The content of the next Fetch request."""

    metadata: FetchMetadata
    to_send: Mapping[TopicPartition, FetchPartition]
    to_forget: Sequence[TopicIdPartition]
    to_replace: Sequence[TopicIdPartition]
    """Partitions with the old topic id of a topic that now has a new id.

    Only versions from 13 on list them as forgotten.
    """
    session_partitions: Mapping[TopicPartition, FetchPartition]
    """Every partition that the response may contain.  A copy: the next plan does not change it."""
    can_use_topic_ids: bool
    """Every topic has an id; otherwise the request must be of version 12 at most."""

    def forgotten(self, api_version: int) -> Sequence[TopicIdPartition]:
        """The partitions in ``ForgottenTopicsData`` of a request of that version."""
        if api_version < FIRST_TOPIC_ID_VERSION:
            return self.to_forget
        return (*self.to_forget, *self.to_replace)


class FetchSessionHandler:
    """The client's side of the session with one leader."""

    def __init__(self, leader: int, log_prefix: str = "") -> None:
        self._leader = leader
        self._log = PrefixedLog(_logger, log_prefix)
        self._next = FetchMetadata()
        self._partitions: dict[TopicPartition, FetchPartition] = {}
        self.topic_names: dict[UUID, str] = {}
        """Names by id of the topics in the session; empty while the session uses names."""

    @property
    def session_id(self) -> int:
        """The id of the session that the next request continues; 0 to open one."""
        return self._next.session_id

    def plan(self, fetch_infos: Mapping[TopicPartition, FetchPartition]) -> FetchSessionRequest:
        """The next request, given all wanted partitions; others leave the session."""
        can_use_ids = all(fetch_info.topic_id is not None for fetch_info in fetch_infos.values())
        to_send: Mapping[TopicPartition, FetchPartition] = dict(fetch_infos)
        to_forget: Sequence[TopicIdPartition] = ()
        to_replace: Sequence[TopicIdPartition] = ()
        if self._next.is_full:
            self._partitions = dict(fetch_infos)
        else:
            to_send, to_forget, to_replace = self._changes(fetch_infos)
            if any(partition.topic_id is None for partition in to_forget):
                can_use_ids = False
        self.topic_names = {
            fetch_info.topic_id: partition.topic
            for partition, fetch_info in fetch_infos.items()
            if can_use_ids and fetch_info.topic_id is not None
        }
        return FetchSessionRequest(
            self._next, to_send, to_forget, to_replace, dict(self._partitions), can_use_ids
        )

    def _changes(
        self, fetch_infos: Mapping[TopicPartition, FetchPartition]
    ) -> tuple[
        dict[TopicPartition, FetchPartition], list[TopicIdPartition], list[TopicIdPartition]
    ]:
        """The changes to the session: partitions to send, to forget and to replace.

        A partition is replaced when its topic has a new id.
        """
        new = {
            tp: fetch_info for tp, fetch_info in fetch_infos.items() if tp not in self._partitions
        }
        altered: dict[TopicPartition, FetchPartition] = {}
        gone: list[TopicIdPartition] = []
        replaced: list[TopicIdPartition] = []
        for tp, known in list(self._partitions.items()):
            old_name = TopicIdPartition(known.topic_id, tp.topic, tp.partition)
            fetch_info = fetch_infos.get(tp)
            if fetch_info is None:
                del self._partitions[tp]
                gone.append(old_name)
            elif fetch_info != known:
                altered[tp] = self._partitions[tp] = fetch_info
                has_ids = None not in (known.topic_id, fetch_info.topic_id)
                if has_ids and known.topic_id != fetch_info.topic_id:
                    replaced.append(old_name)
        self._partitions.update(new)
        return new | altered, gone, replaced

    def handle_response(
        self,
        api_version: int,
        error: ErrorCode,
        session_id: int,
        partitions: Collection[TopicPartition],
        topic_ids: Collection[UUID] = (),
        throttle_time_ms: int = 0,
    ) -> bool:
        """Processes a response; False if its partitions must not be used.

        ``partitions`` are the partitions in the response.  ``topic_ids`` are all topic ids in the
        response (from version 13), including unknown ones.
        """
        if error is not ErrorCode.none:
            self._log.info(
                "Node %d was unable to process the fetch request with %s: %s.",
                self._leader,
                self._next,
                error.name.upper(),
            )
            if error is ErrorCode.fetch_session_id_not_found:
                self._next = FetchMetadata()
            else:
                self._close_and_open()
            return False
        is_full = self._next.is_full
        if is_full and not partitions and throttle_time_ms > 0:
            # KIP-219: an empty full response with a throttle time only delays the client.
            self._next = FetchMetadata()
            return False
        problem = self._problem(api_version, partitions, topic_ids)
        if problem is not None:
            self._log.info(
                "Node %d sent an invalid %s fetch response with %s",
                self._leader,
                "full" if is_full else "incremental",
                problem,
            )
            if is_full:
                self._next = FetchMetadata()
            else:
                self._close_and_open()
            return False
        if session_id == NO_SESSION:
            self._next = FetchMetadata()
        elif is_full:
            self._next = FetchMetadata(session_id, next_session_epoch(INITIAL_SESSION_EPOCH))
        else:
            self._next = self._next._replace(epoch=next_session_epoch(self._next.epoch))
        return True

    def handle_error(self, cause: str | None = None) -> None:
        """Handles a request without a response: the next one closes the session and opens another.

        The leader may have processed the request.  The log shows ``cause`` below the error line.
        """
        self._log.info(
            "Error sending fetch request %s to node %d:",
            self._next,
            self._leader,
            extra=None if cause is None else {"cause": cause},
        )
        self._close_and_open()

    def close(self) -> None:
        """Makes the next request the last one of the session."""
        self._next = self._next._replace(epoch=FINAL_SESSION_EPOCH)

    def _close_and_open(self) -> None:
        self._next = self._next._replace(epoch=INITIAL_SESSION_EPOCH)

    def _problem(
        self, api_version: int, partitions: Collection[TopicPartition], topic_ids: Collection[UUID]
    ) -> str | None:
        """What is wrong with the partitions of a response, as Kafka logs it; None if nothing."""
        problems: dict[str, list[str]] = {}
        if self._next.is_full:
            received = set(partitions)
            problems["omittedPartitions"] = [
                str(tp) for tp in self._partitions if tp not in received
            ]
        problems["extraPartitions"] = [str(tp) for tp in partitions if tp not in self._partitions]
        if api_version >= FIRST_TOPIC_ID_VERSION:
            unknown = [topic_id for topic_id in topic_ids if topic_id not in self.topic_names]
            problems["extraIds"] = [str(topic_id) for topic_id in unknown]
        if not any(problems.values()):
            return None
        problems["response"] = [str(tp) for tp in partitions]
        return ", ".join(
            f"{name}=({', '.join(names)})"
            for name, names in problems.items()
            if names or name == "response"
        )
