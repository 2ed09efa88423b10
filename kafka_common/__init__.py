"""Modules that all packages share: values, errors, wire format, connections, metrics.

From the bottom up; a module imports only what stands above it in this list (*What all packages
share* in ``setup.cfg``):

1. :mod:`.lean_kio` comes before any import of kio; :mod:`.errors` is the one exception tree;
2. values and types: :mod:`.model` (read it first), :mod:`.acls`, :mod:`.topic_names`,
   :mod:`.sanitizer`, :mod:`.json_values`, :mod:`.api_error`; :mod:`.java`: Java's arithmetic;
3. :mod:`.wall_time`: the clock, which a test may set;
4. :mod:`.protocol`: Kafka's wire format;
5. :mod:`.process` (interpreter, limits of the process), :mod:`.net` (connections to brokers),
   :mod:`.observability` (metrics and log files).

What must not be done here: import another package of the project; know a znode or a file of a log;
raise an error that a caller must handle and that is not in :mod:`.errors`.
"""

from kafka_common.lean_kio import import_kio_types

import_kio_types()
