"""Columns of UpdateMetadata for the tests of bulk reading."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kafka_common.model import Broker, Endpoint, LeaderAndIsr

INT32 = st.integers(-(2**31), 2**31 - 1)


INT64 = st.integers(-(2**63), 2**63 - 1)


IDS = st.lists(INT32, max_size=5).map(tuple)


NAMES = st.text(st.characters(codec="utf-8"), max_size=40)


TOPIC_IDS = st.none() | st.uuids().filter(lambda topic_id: topic_id.int != 0)


STATES = st.builds(LeaderAndIsr, INT32, INT32, IDS, INT32, INT32, st.integers(0, 1))


ENDPOINTS = st.builds(
    Endpoint,
    NAMES,
    INT32,
    st.just("PLAINTEXT") | NAMES,
    st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
)


BROKERS = st.builds(
    Broker,
    INT32,
    st.lists(ENDPOINTS, max_size=3).map(
        lambda more: (Endpoint("h", 1, "PLAINTEXT", "PLAINTEXT"), *more)
    ),
    st.none() | NAMES,
)


def topics_of(partition: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.tuples(NAMES, TOPIC_IDS, st.lists(partition, max_size=4)), max_size=4)


UPDATE_METADATA_TOPICS = topics_of(st.tuples(INT32, STATES, IDS, IDS))


HEADS = st.tuples(INT32, INT32, INT64)
