"""The records of ``__cluster_metadata``: what a KRaft controller writes, and what brokers read.

* :mod:`.records`: every record as a frozen value, under Kafka's names;
* :mod:`.codec`: a record as bytes and back, by the table of fields in :mod:`.schemas`;
* :mod:`.metadata_batches`: batches of the log, of these records or of the raft layer's own;
* :mod:`.metadata_version`: which records, in which of their versions, a cluster may write;
* :mod:`.bootstrap`: the records with which a cluster begins;
* :mod:`.record_json`: the records as JSON, for people.

Source: Kafka 3.9 ``metadata/src/main/resources/common/metadata`` (KIP-631).
"""
