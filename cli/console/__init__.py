"""What every verb shares with its user: options, exit codes, output, help.

Read :mod:`.errors` (the exit codes), :mod:`.options` (the shared options, a verb, a group), then
:mod:`.shared_settings` (which address counts) with :mod:`.contexts` (clusters by name).

* Output: :mod:`.render` prints one result in eight formats; :mod:`.tables` and :mod:`.templates`
  are two of them; :mod:`.quantities` writes numbers and times; :mod:`.watching` repeats a verb.
* Help: :mod:`.examples`; :mod:`.completion_shells` (what shells ask), :mod:`.completion_values`
  (read off the click tree), :mod:`.completion_reader` (asks the cluster).

The lowest room.  :mod:`.options`, :mod:`.shared_settings` and :mod:`.completion_reader` import the
rooms that know a cluster inside the functions that need them; no other module here may.

What must not be done here: change the meaning of an exit code or of a key of an output; import
anything heavy.
"""
