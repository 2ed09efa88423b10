"""KRaft: the raft quorum that replicates the metadata log, and the controller that writes it.

The raft step is pure: it takes an input and the time, and says what is to be done, in order.
Nothing here opens a socket or a file, reads a clock or waits.

* :mod:`.metadata`: the records of the metadata log, bytes to values and back;
* :mod:`.controller`: the controller on top, which generates records and replays them.

Source: Kafka 3.9 ``raft`` and ``metadata`` (KIP-500, KIP-595, KIP-630, KIP-631).
"""
