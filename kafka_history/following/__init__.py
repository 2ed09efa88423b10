"""Following logs as they grow: whole records are stored as they come, and findings reported.

:mod:`.tailer` looks at the files every second and copies what is new in each, up to the last whole
record, into a segment of its own; a note (:mod:`.spool`), put in place by one rename, names the
segments and says how far every file has been read.  :mod:`.batches` stores what a note names, with
the readers that ingest uses, as an ingest of its own.  :mod:`.recent_events` holds the events of
the last hours in memory; :mod:`.follower` asks the rules about them, and :mod:`.announcements` says
what of the answers is new.

What a kill leaves behind
-------------------------
- Segments that no note names: the next look writes them again, under the same names.
- A note whose batch is not in ``history.json``: it is stored when following begins again, under the
  number of ingest that :data:`.batches.BATCH` has noted, and what was half written is replaced.
- A batch that is in ``history.json`` while its note is still there: it is left alone.

So every record is in the tables once, whenever the process was killed.
"""
