"""Logs into typed rows, with Spark: files, records, shapes, Parquet.

These modules and :mod:`zkcontroller.state_changes.ordering` import pyspark; nothing of the
controller or the broker imports them.
"""
