"""What each metric means, with its unit: the HELP text for Prometheus and ``zkctl metrics``.

The texts are keyed by the metrics' Prometheus names without ``_total``, grouped by prefix.  Tests
check that each metric of a broker and of a quorum node has a text.

Source: Kafka's ``docs/ops.html`` names the same numbers; the units are those of its classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_EVENTS: Final = {
    "autoleaderbalance": "balanced leaders by itself",
    "controlledshutdown": "took the leaderships from a broker that shuts down",
    "controllerchange": "found out who the controller is, or was elected",
    "controllershutdown": "ended its office because its broker stops",
    "isrchange": "dealt with changes of in-sync replicas",
    "leaderandisrresponsereceived": "dealt with a response to LeaderAndIsr",
    "leaderelection": "dealt with a broker that came, went or failed, and elected leaders",
    "listpartitionreassignment": "listed reassignments on request",
    "logdirchange": "dealt with failed log directories",
    "manualleaderbalance": "elected preferred leaders on request",
    "partitionreassignment": "dealt with a reassignment",
    "topicchange": "dealt with new or vanished topics",
    "topicdeletion": "dealt with topics to be deleted",
    "topicuncleanleaderelectionenable": "dealt with unclean elections allowed for a topic",
    "uncleanleaderelectionenable": "dealt with unclean elections allowed for all topics",
    "updatefeatures": "changed finalized features",
}
"""Kinds of controller event, each a timer of ``ControllerStats``."""

_MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka_cluster_partition_": {
        "atminisr": "1 if this leader's partition has just min.insync.replicas in sync, else 0.",
        "insyncreplicascount": "In-sync replicas of a partition that this broker leads, else 0.",
        "laststableoffsetlag": "Offsets from the last stable offset to the high watermark: records "
        "of open transactions and behind them.",
        "replicascount": "Replicas of a partition that this broker leads, else 0.",
        "underminisr": "1 if a partition led here has fewer in-sync replicas than "
        "min.insync.replicas, so that acks=all is refused, else 0.",
        "underreplicated": "1 if a replica of a partition led here is not in sync, else 0.",
    },
    "kafka_controller_controllerchannelmanager_": {
        "queuesize": "Requests of this controller that wait to be sent to a broker.",
        "requestrateandqueuetimems": "Milliseconds that the controller's requests waited before "
        "they were sent to a broker; _count: how many were sent.",
        "totalqueuesize": "Requests of this controller that wait to be sent, to all brokers.",
    },
    "kafka_controller_controllereventmanager_": {
        "eventqueuesize": "Events that wait for the controller's thread.",
        "eventqueuetimems": "Milliseconds that events waited for the controller's thread.",
        "eventqueueprocessingtimems": "Milliseconds that the controller's thread worked on an "
        "event.",
    },
    "kafka_controller_controllerstats_": {
        **{
            f"{name}rateandtimems": f"Milliseconds that the controller took each time it {did}; "
            "_count: how often."
            for name, did in _EVENTS.items()
        },
        "uncleanleaderelections": "Leaders elected out of sync, which may have lost records.",
    },
    "kafka_controller_kafkacontroller_": {
        "activebrokercount": "Brokers that are alive, as the active controller knows them; "
        "elsewhere 0.",
        "activecontrollercount": "1 if this process is the active controller, else 0; the sum over "
        "a cluster must be 1.",
        "controllerstate": "What the controller works on: 0 is idle, any other number the kind of "
        "event.",
        "eventqueueoperationsstartedcount": "Operations that the controller has begun.",
        "eventqueueoperationstimedoutcount": "Operations that ended because their time was over.",
        "fencedbrokercount": "Brokers that are registered and fenced; 0 in ZooKeeper mode.",
        "globalpartitioncount": "Partitions of the cluster, as the active controller knows them; "
        "elsewhere 0.",
        "globaltopiccount": "Topics of the cluster, as the active controller knows them; "
        "elsewhere 0.",
        "lastappliedrecordlagms": "Milliseconds since the newest applied record of the metadata "
        "log was written; 0 at the active controller.",
        "lastappliedrecordoffset": "Offset of the newest applied record of the metadata log.",
        "lastappliedrecordtimestamp": "When that record was written, milliseconds since 1970.",
        "lastcommittedrecordoffset": "Offset of the newest committed record of the metadata log.",
        "metadataerrorcount": "Errors met while records of the metadata log were applied.",
        "migratingzkbrokercount": "Brokers in ZooKeeper mode that are registered for a migration.",
        "newactivecontrollerscount": "How often this node has seen a new active controller.",
        "offlinepartitionscount": "Partitions without a leader, as the active controller knows "
        "them; elsewhere 0. They can be neither written nor read.",
        "preferredreplicaimbalancecount": "Partitions that are not led by their preferred replica, "
        "as the active controller knows them; elsewhere 0.",
        "replicasineligibletodeletecount": "Replicas that cannot be deleted now, because their "
        "broker is dead or their disk failed.",
        "replicastodeletecount": "Replicas that wait to be deleted.",
        "timedoutbrokerheartbeatcount": "Heartbeats of brokers that did not come in time.",
        "topicsineligibletodeletecount": "Topics that cannot be deleted now.",
        "topicstodeletecount": "Topics that wait to be deleted.",
        "zkmigrationstate": "0: none, 1 to 3: before, during and after a migration to KRaft, 4: "
        "ZooKeeper mode.",
    },
    "kafka_coordinator_group_groupmetadatamanager_": {
        "numgroups": "Groups that this broker coordinates.",
        "numgroupscompletingrebalance": "Of those, the groups that wait for the leader's "
        "assignment.",
        "numgroupsdead": "Of those, the groups that are removed.",
        "numgroupsempty": "Of those, the groups without members.",
        "numgroupspreparingrebalance": "Of those, the groups that wait for their members to join.",
        "numgroupsstable": "Of those, the groups whose members have their assignment.",
        "numoffsets": "Committed offsets that this broker keeps for its groups.",
    },
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_": {
        "logappendretryqueuesize": "Completed transactions that could not be written yet.",
        "unknowndestinationqueuesize": "Markers that wait because their partition has no leader.",
    },
    "kafka_log_log_": {
        "logendoffset": "Offset that the next record of the log will get.",
        "logstartoffset": "Offset of the first record that can be read.",
        "numlogsegments": "Segments of the log.",
        "size": "Bytes of the log's segments.",
    },
    "kafka_log_logcleaner_": {
        "cleaner_recopy_percent": "Bytes that the last compaction wrote, in percent of those it "
        "read.",
        "deadthreadcount": "Cleaners that have ended: while it is not 0 no log is compacted.",
        "max_buffer_utilization_percent": "Percent of its memory that the map of offsets of the "
        "last compaction took.",
        "max_clean_time_secs": "Seconds that the last compaction took.",
        "max_compaction_delay_secs": "Seconds by which the last compaction came later than "
        "max.compaction.lag.ms allows.",
    },
    "kafka_log_logcleanermanager_": {
        "max_dirty_percent": "Percent of the dirtiest log that was not compacted, when logs were "
        "last looked at.",
        "time_since_last_run_ms": "Milliseconds since the cleaner last looked for logs to compact.",
        "uncleanable_bytes": "Bytes that wait for compaction in logs whose compaction failed, by "
        "log directory.",
        "uncleanable_partitions_count": "Logs whose compaction failed, by log directory; they grow "
        "until the broker restarts.",
    },
    "kafka_log_logflushstats_": {
        "logflushrateandtimems": "Milliseconds that it took to bring a log to disk (fsync); "
        "_count: how often.",
    },
    "kafka_log_logmanager_": {
        "logdirectoryoffline": "1 if the log directory has failed and is offline, else 0.",
        "offlinelogdirectorycount": "Log directories that have failed and are offline.",
    },
    "kafka_network_processor_": {
        "idlepercent": "Share of the last minute in which the event loop had nothing to do, 0 to "
        "1.",
    },
    "kafka_network_requestchannel_": {
        "requestqueuesize": "Requests that have arrived and whose handler has not begun.",
    },
    "kafka_network_requestmetrics_": {
        "errors": "Errors in answers, by kind of request and error; NONE counts what went well.",
        "localtimems": "Milliseconds that the handler held the event loop, a request.",
        "messageconversionstimems": "Milliseconds that it took to pack records anew, a request.",
        "remotetimems": "Milliseconds that a request waited for others: replicas, records, the "
        "controller, ZooKeeper.",
        "requestbytes": "Bytes of a request.",
        "requestqueuetimems": "Milliseconds from the last byte of a request until its handler "
        "began.",
        "requests": "Requests that were answered, by kind and version.",
        "responsesendtimems": "Milliseconds until the last byte of the answer was sent.",
        "temporarymemorybytes": "Bytes of batches that were unpacked or made for a request.",
        "throttletimems": "Milliseconds for which the client is not listened to, because of a "
        "quota.",
        "totaltimems": "Milliseconds from the last byte of a request to the last byte of its "
        "answer.",
    },
    "kafka_network_socketserver_": {
        "expiredconnectionskilledcount": "Connections closed because their login was not renewed "
        "in time.",
        "memorypoolavailable": "Bytes that large requests may still take together.",
        "memorypoolused": "Bytes that large requests take, until they are answered.",
        "networkprocessoravgidlepercent": "Share of the last minute in which the event loop had "
        "nothing to do, 0 to 1.",
    },
    "kafka_server_addpartitionstotxnmanager_": {
        "verificationfailurerate_count": "Transactional batches whose transaction the coordinator "
        "did not confirm.",
        "verificationtimems": "Milliseconds until the coordinator answered about a transaction.",
    },
    "kafka_server_brokertopicmetrics_": {
        "bytesin": "Bytes of records that producers wrote, of a topic and of all.",
        "bytesout": "Bytes of records that consumers read, of a topic and of all.",
        "bytesrejected": "Bytes of records that were refused for their size.",
        "failedfetchrequests": "Fetches of a partition that failed.",
        "failedproducerequests": "Produce requests to a partition that failed.",
        "fetchmessageconversions": "Batches packed anew for older consumers.",
        "invalidmagicnumberrecords": "Batches refused for an unknown format.",
        "invalidmessagecrcrecords": "Batches refused because their checksum is wrong.",
        "invalidoffsetorsequencerecords": "Batches refused because their offsets or sequence "
        "numbers are wrong.",
        "messagesin": "Records that producers wrote, of a topic and of all.",
        "nokeycompactedtopicrecords": "Records without a key refused by a compacted topic.",
        "producemessageconversions": "Batches of producers that were packed anew.",
        "reassignmentbytesin": "Bytes that this broker fetched for replicas being added.",
        "reassignmentbytesout": "Bytes that others fetched here for replicas being added.",
        "replicationbytesin": "Bytes that this broker fetched as a follower.",
        "replicationbytesout": "Bytes that followers fetched here.",
        "totalfetchrequests": "Fetches of a partition.",
        "totalproducerequests": "Produce requests to a partition.",
    },
    "kafka_server_delayedfetchmetrics_": {
        "expires": "Fetches answered because their time was over, not because there was enough to "
        "read.",
    },
    "kafka_server_delayedoperationpurgatory_": {
        "numdelayedoperations": "Requests of that kind that wait.",
        "purgatorysize": "Requests of that kind that wait, once for each thing they wait for.",
    },
    "kafka_server_fetch_": {
        "byte_rate": "Bytes a second that a client fetches, where it has a quota.",
        "queue_size": "Clients that wait because of their Fetch quota.",
        "throttle_time": "Milliseconds that a client waits because of its Fetch quota, on average.",
    },
    "kafka_server_fetcherlagmetrics_": {
        "consumerlag": "Records by which this follower lags behind its leader; -1 until the leader "
        "has answered.",
    },
    "kafka_server_fetcherstats_": {
        "bytes": "Bytes that a fetcher received from its leader.",
        "requests": "Fetch requests that a fetcher sent to its leader.",
    },
    "kafka_server_fetchsessioncache_": {
        "incrementalfetchsessionevictions": "Fetch sessions that lost their slot to another.",
        "numincrementalfetchpartitionscached": "Partitions in all fetch sessions together.",
        "numincrementalfetchsessions": "Fetch sessions of consumers and followers that are kept.",
    },
    "kafka_server_group_coordinator_metrics_": {
        "group_completed_rebalance_count": "Rebalances that were completed.",
        "group_completed_rebalance_rate": "Rebalances completed a second, lately.",
        "offset_commit_count": "Offsets that were committed.",
        "offset_commit_rate": "Offsets committed a second, lately.",
        "offset_deletion_count": "Offsets that were deleted on request.",
        "offset_deletion_rate": "Offsets deleted on request a second, lately.",
        "offset_expiration_count": "Offsets removed because they were too old.",
        "offset_expiration_rate": "Offsets removed for their age a second, lately.",
        "partition_load_time_avg": "Milliseconds to load a partition of __consumer_offsets, on "
        "average lately; NaN: none.",
        "partition_load_time_max": "The same, the longest.",
    },
    "kafka_server_kafkarequesthandlerpool_": {
        "requesthandleravgidlepercent_count": "Nanoseconds in which the event loop had nothing to "
        "do; its rate by 1e9 is the idle share.",
    },
    "kafka_server_kafkaserver_": {
        "brokerstate": "0: not running, 1: starting, 2: recovering logs, 3: running, 6: "
        "controlled shutdown, 7: shutting down.",
        "clusterid": "The cluster's id, as the label value.",
        "linux_disk_read_bytes": "Bytes that the process has read from disks.",
        "linux_disk_write_bytes": "Bytes that the process has written to disks.",
        "yammer_metrics_count": "Metrics of this process, but for those that are sensors.",
    },
    "kafka_server_metadataloader_": {
        "currentcontrollerid": "Id of the active controller, -1: unknown.",
        "currentmetadataversion": "The metadata.version in force, as its level.",
        "handleloadsnapshotcount": "Snapshots of the metadata log that were loaded.",
    },
    "kafka_server_produce_": {
        "byte_rate": "Bytes a second that a client produces, where it has a quota.",
        "queue_size": "Clients that wait because of their Produce quota.",
        "throttle_time": "Milliseconds that a client waits because of its Produce quota, on "
        "average.",
    },
    "kafka_server_raft_metrics_": {
        "append_records_rate": "Records a second that this leader appends to the metadata log.",
        "commit_latency_avg": "Milliseconds until a record was committed, on average lately.",
        "commit_latency_max": "Milliseconds until a record was committed, the longest lately.",
        "current_epoch": "Epoch of the quorum.",
        "current_leader": "Id of the quorum's leader, -1: unknown.",
        "current_state": "State of this node in the quorum, as the label value.",
        "current_vote": "Id of the node that got this node's vote in this epoch, -1: none.",
        "current_vote_directory_id": "Directory id of that node, as the label value.",
        "election_latency_avg": "Milliseconds from candidacy to a leader, on average lately.",
        "election_latency_max": "Milliseconds from candidacy to a leader, the longest lately.",
        "fetch_records_rate": "Records a second that this follower fetches.",
        "high_watermark": "Offset up to which the metadata log is committed, -1: unknown.",
        "log_end_epoch": "Epoch of the last record of the metadata log.",
        "log_end_offset": "Offset that the next record of the metadata log will get.",
        "number_unknown_voter_connections": "Voters whose address is unknown; 0 where voters are "
        "static.",
        "poll_idle_ratio_avg": "Share of the time in which the driver waited for something to do, "
        "0 to 1.",
    },
    "kafka_server_replicaalterlogdirsmanager_": {
        "deadthreadcount": "Tasks that move replicas between log directories and have ended.",
        "failedpartitionscount": "Replicas whose move between log directories failed.",
        "maxlag": "Records that the most backward replica being moved still lacks.",
    },
    "kafka_server_replicafetchermanager_": {
        "deadthreadcount": "Fetchers of followers that have ended.",
        "failedpartitionscount": "Partitions that this follower fetches no more, after a failure.",
        "maxlag": "Records by which the most backward follower here lags behind its leader.",
        "minfetchrate": "Fetch requests a second of the slowest fetcher, mean of the last minute.",
    },
    "kafka_server_replicamanager_": {
        "atminisrpartitioncount": "Partitions led here that have just min.insync.replicas in sync.",
        "failedisrupdates": "Changes of in-sync replicas that the controller or ZooKeeper refused.",
        "isrexpands": "Changes of a partition by which a replica came back in sync.",
        "isrshrinks": "Changes of a partition by which a replica fell out of sync.",
        "leadercount": "Partitions that this broker leads.",
        "offlinereplicacount": "Replicas here whose log directory is offline.",
        "partitioncount": "Replicas on this broker.",
        "partitionswithlatetransactionscount": "Partitions led here with a transaction that its "
        "coordinator should have ended: it hangs.",
        "produceridcount": "Producer ids that the logs here remember.",
        "reassigningpartitions": "Partitions led here that are being reassigned.",
        "underminisrpartitioncount": "Partitions led here with fewer in-sync replicas than "
        "min.insync.replicas: acks=all is refused.",
        "underreplicatedpartitions": "Partitions led here of which a replica is not in sync.",
    },
    "kafka_server_request_": {
        "exempt_request_time": "Percent of the event loop that requests without a quota take, "
        "those of brokers.",
        "queue_size": "Clients that wait because of their request quota.",
        "request_time": "Percent of the event loop that a client's requests take, where it has a "
        "quota.",
        "throttle_time": "Milliseconds that a client waits because of its request quota, on "
        "average.",
    },
    "kafka_server_sessionexpirelistener_": {
        "sessionstate": "State of the ZooKeeper session, as the label value.",
        "zookeeperauthfailures": "Logins that ZooKeeper refused.",
        "zookeeperdisconnects": "Lost connections to ZooKeeper; the session may go on.",
        "zookeeperexpires": "ZooKeeper sessions that expired.",
        "zookeeperreadonlyconnects": "Connections to a read-only ZooKeeper: this broker makes "
        "none.",
        "zookeepersaslauthentications": "Logins at ZooKeeper by SASL that succeeded.",
        "zookeepersyncconnects": "Connections to ZooKeeper that were made.",
    },
    "kafka_server_leaderreplication_": {
        "byte_rate": "Bytes a second that this broker sends to throttled replicas.",
    },
    "kafka_server_followerreplication_": {
        "byte_rate": "Bytes a second that this broker's throttled replicas fetch.",
    },
    "kafka_server_snapshotemitter_": {
        "latestsnapshotgeneratedagems": "Milliseconds since this node last made a snapshot.",
        "latestsnapshotgeneratedbytes": "Bytes of the last snapshot that this node made.",
    },
    "kafka_server_socket_server_metrics_": {
        "broker_connection_accept_rate": "Connections accepted a second, all listeners.",
        "connection_accept_rate": "Connections accepted a second, of a listener or an address.",
        "connection_accept_throttle_time": "Milliseconds that connections of a listener waited "
        "because of its rate, on average; NaN: none lately.",
        "connection_close_rate": "Connections of a listener that were closed, a second.",
        "connection_close_total": "The same, since the start.",
        "connection_count": "Open connections of a listener.",
        "connection_creation_rate": "Connections of a listener that were accepted, a second.",
        "connection_creation_total": "The same, since the start.",
        "connections": "Open connections of a listener by their clients' software or their cipher.",
        "expired_connections_killed_count": "Connections closed because their login was not "
        "renewed in time.",
        "failed_authentication_rate": "Clients that were refused, by TLS or SASL, a second.",
        "failed_authentication_total": "The same, since the start.",
        "failed_reauthentication_rate": "Clients whose login could not be renewed, a second.",
        "failed_reauthentication_total": "The same, since the start.",
        "incoming_byte_rate": "Bytes of requests a second.",
        "incoming_byte_total": "The same, since the start.",
        "ip_connection_accept_throttle_time": "The same, because of the rate of their address.",
        "network_io_rate": "Requests received and responses sent a second.",
        "network_io_total": "The same, since the start.",
        "outgoing_byte_rate": "Bytes of responses a second.",
        "outgoing_byte_total": "The same, since the start.",
        "reauthentication_latency_avg": "Milliseconds to renew a login, on average lately.",
        "reauthentication_latency_max": "The same, the longest.",
        "request_rate": "Responses sent a second: to Kafka's selector they are requests.",
        "request_size_avg": "Bytes of a response, on average lately; NaN: none.",
        "request_size_max": "The same, the largest.",
        "request_total": "Responses sent since the start.",
        "response_rate": "Requests received a second: to Kafka's selector they are responses.",
        "response_total": "The same, since the start.",
        "successful_authentication_no_reauth_total": "Of the clients that were let in, those that "
        "cannot renew their login, such as all that have a certificate only.",
        "successful_authentication_rate": "Clients that were let in, by TLS or SASL, a second.",
        "successful_authentication_total": "The same, since the start.",
        "successful_reauthentication_rate": "Logins that were renewed, a second.",
        "successful_reauthentication_total": "The same, since the start.",
    },
    "kafka_server_transaction_coordinator_metrics_": {
        "partition_load_time_avg": "Milliseconds to load a partition of __transaction_state, on "
        "average lately; NaN: none.",
        "partition_load_time_max": "The same, the longest.",
    },
    "kafka_server_zookeeperclientmetrics_": {
        "zookeeperrequestlatencyms": "Milliseconds until ZooKeeper answered a request.",
    },
    "zkcontroller_server_eventloop_": {
        "longcallbacks": "Callbacks that held the event loop for 50 ms or more since the start.",
        "longestcallbackms": "Milliseconds of processor time of the longest callback since the "
        "start.",
        "recentlongestcallbackms": "Milliseconds of processor time of the longest callback of the "
        "last one to two minutes.",
    },
}

MEANING_OF: Final[Mapping[str, str]] = {
    f"{start}{end}": text for start, group in _MEANINGS.items() for end, text in group.items()
}


def meaning_of(name: str) -> str:
    """What a metric of that name means; the name itself if it is none of Kafka's nor ours."""
    return MEANING_OF.get(name, name)
