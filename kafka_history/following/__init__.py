"""Follows logs that grow: stores each complete record and reports new findings.

One pass over the files is a *look*.  :mod:`.tailer` looks every second and copies the new complete
records of each file into a segment file.  A note (:mod:`.spool`) lists the segments of a look and
how far every file has been read; one rename puts it in place.  :mod:`.batches` stores the segments
of a note as an ingest, with the readers of a normal ingest.  :mod:`.recent_events` holds the events
of the last hours in memory.  :mod:`.follower` runs the rules on them, and :mod:`.announcements`
selects the findings that are new.

What a killed process leaves behind
-----------------------------------
- Segments that no note lists: the next look writes them again, under the same names.
- A note whose batch is not in ``history.json``: the next run stores it, under the ingest number
  that :data:`.batches.BATCH` holds, and replaces what was half written.
- A note whose batch is in ``history.json``: the next run does not store it again.

So every record is in the tables once, whenever the process was killed.
"""
