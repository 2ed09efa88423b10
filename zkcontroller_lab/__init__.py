"""The lab: a run of the controller as a recording, and the page that plays it.

``zkctl lab`` (``cli/lab.py``) is the command; docs/lab.md is its manual and describes the format.

* :mod:`.recording`: the format.  Read this first.
* Recordings of the simulator: :mod:`.experiment` (what happens in a run), :mod:`.interventions`
  (faults that a reader adds to it), :mod:`.recorder` (the observer), :mod:`.frames` (the state of a
  world), :mod:`.places` (which function decided), :mod:`.line_words` (results and effects in
  words), :mod:`.lessons`, :mod:`.quorum_lesson`, :mod:`.saved_test`.
* Recordings of a cluster: :mod:`.state_change_files`.
* The page: :mod:`.page` (its files, and all of them in one), :mod:`.server`.

Stands below ``zkcontroller_cli`` and above ``zkcontroller_simulation``.

What must not be done here: decide anything that the core decides; read a clock in a recording; put
data of a recording into a page as markup.
"""

import kafka_common  # noqa: F401  before any module here imports kio
