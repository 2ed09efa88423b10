"""Partitions: leaders, followers, in-sync replicas and high watermarks."""
