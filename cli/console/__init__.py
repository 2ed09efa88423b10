"""What all verbs have in common: options, exit codes, output, help.

Read :mod:`.errors` (the exit codes), :mod:`.options` (the shared options, a verb, a group), then
:mod:`.shared_settings` (which address is used) with :mod:`.contexts` (clusters by name).

* Output: :mod:`.render` prints one result in eight formats; :mod:`.tables` and :mod:`.templates`
  are two of them; :mod:`.quantities` writes numbers and times; :mod:`.watching` repeats a verb.
* Help: :mod:`.examples`; :mod:`.completion_shells` (the shells' scripts),
  :mod:`.completion_values` (which values an argument has), :mod:`.completion_reader` (asks the
  cluster for them).

The lowest package of ``cli``.  :mod:`.options`, :mod:`.shared_settings` and
:mod:`.completion_reader` import packages that know a cluster inside the functions that need them;
no other module here may.

What must not be done here: change the meaning of an exit code or of a key of an output; import
anything heavy.
"""
