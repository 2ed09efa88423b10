"""A broker's answer in Kafka's words."""

from __future__ import annotations

from zkcontroller.runtime.response_text import response_text

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
TOPIC_ID = "3de57b87b8544605abf95b0674da3cc1"


def test_leader_and_isr_7_answers_by_topic_id() -> None:
    body = bytes.fromhex("0000" "02" + TOPIC_ID + "03" "00000007" "0000" "00" "00000008" "0038" "00"
                         "00" "00")  # fmt: skip

    assert response_text(LEADER_AND_ISR, 7, body) == (
        "LeaderAndIsrResponseData(errorCode=0, partitionErrors=[], topics=[LeaderAndIsrTopicError("
        "topicId=PeV7h7hURgWr-VsGdNo8wQ, partitionErrors=[LeaderAndIsrPartitionError(topicName='', "
        "partitionIndex=7, errorCode=0), LeaderAndIsrPartitionError(topicName='', "
        "partitionIndex=8, errorCode=56)])])"
    )


def test_leader_and_isr_4_answers_by_name() -> None:
    body = bytes.fromhex("000b02026100000007000b0000")

    assert response_text(LEADER_AND_ISR, 4, body) == (
        "LeaderAndIsrResponseData(errorCode=11, partitionErrors=[LeaderAndIsrPartitionError("
        "topicName='a', partitionIndex=7, errorCode=11)], topics=[])"
    )


def test_stop_replica_and_update_metadata() -> None:
    stopped = bytes.fromhex("000002026100000001004a0000")

    assert response_text(STOP_REPLICA, 4, stopped) == (
        "StopReplicaResponseData(errorCode=0, partitionErrors=["
        "StopReplicaPartitionError(topicName='a', partitionIndex=1, errorCode=74)])"
    )
    assert response_text(UPDATE_METADATA, 8, bytes.fromhex("004d00")) == (
        "UpdateMetadataResponseData(errorCode=77)"
    )


def test_an_error_code_from_the_future_is_printed_as_it_came() -> None:
    assert response_text(UPDATE_METADATA, 8, bytes.fromhex("753000")) == (
        "UpdateMetadataResponseData(0x753000)"
    )
