"""The history of logs: shapes and readers; what needs Spark shares one session."""
