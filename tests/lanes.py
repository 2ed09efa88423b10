"""Which worker of pytest-xdist takes which file of tests: some wait while others compute.

Files of the folders that wait (``WAITING_FOLDERS``) start processes and wait for them; those of
the others use a processor for as long as they run.  If each worker took the next file whatever it
is, all of them would wait at first, and all would compute at the end.  So a third of the workers
takes files that compute, the others those that wait, and each helps the others when its own are
done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

WAITING_FOLDERS: Final = ("tests/integration/", "tests/clients/")
"""Those whose tests start processes and wait for them, mostly without work for a processor."""


class Lanes(LoadFileScheduling):  # type: ignore[misc]  # xdist is untyped
    """Gives each worker whole files of its lane, in their order; then those of the other lane."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Hands the worker its next file, which xdist takes from the front of its queue."""
        waits = waits_for_processes(self.nodes.index(node), len(self.nodes))
        for file in self.workqueue:
            if file.startswith(WAITING_FOLDERS) is waits:
                self.workqueue.move_to_end(file, last=False)
                break
        super()._assign_work_unit(node)


def waits_for_processes(worker: int, workers: int) -> bool:
    """Whether this worker of so many, counted from 0, begins with the files that wait."""
    return worker >= (workers + 2) // 3
