"""Following logs as they grow: a tailer cuts whole records, Structured Streaming stores them.

Spark's own file source takes a file once, when it appears, and never looks at it again; logs grow.
So there are two halves.  :mod:`.tailer` looks at the files every few seconds and copies what is new
in each, up to the last whole record, into a segment of its own; a note (:mod:`.spool`), put in
place by one rename, names the segments and says how far every file has been read.  Notes are files
that appear and never change, which is what Structured Streaming follows well: :mod:`.stream` gives
them, batch by batch, to :mod:`.batches`, which reads the segments with the readers that ingest
uses, and writes each batch as an ingest of its own.

What a kill leaves behind
-------------------------
- Segments that no note names: the next look writes them again, under the same names.
- A batch without rows in ``history.json``: Spark's checkpoint gives the same notes under the same
  number of batch again, :data:`.batches.BATCH` gives it the same number of ingest, and what was
  half written is overwritten.
- A batch that is in ``history.json`` but not in the checkpoint: it comes again, and is left alone.

So every record is in the tables once, whenever the process was killed.
"""
