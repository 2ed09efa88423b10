"""Decides which cluster a followed file belongs to, from the beginnings of files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kafka_history.following.positions import Position


class Clusters:
    """The cluster of each folder: decided once, and used for all later files in the folder."""

    def __init__(self, positions: Iterable[Position]) -> None:
        self._of_folder: dict[Path, str] = {}
        self._beside: dict[Path, set[str]] = {}
        for position in positions:
            if position.kind is not None:
                self._remember(Path(position.path).parent, position.cluster)

    def of(self, path: str, named: str) -> str:
        """The cluster of a new file; ``named``: the cluster that its lines or its path name."""
        folder = Path(path).parent
        known = self._of_folder.get(folder)
        if (
            known is not None
            and known != named
            and all(_is_named_by(folder, k) for k in (known, named))
        ):
            return named  # logs of two clusters in one folder
        if known is None:
            beside = self._beside.get(folder.parent, set())
            only = next(iter(beside)) if len(beside) == 1 else None
            # The name of the folder beside was a guess from its path.  Use it here, too, so that
            # one cluster is not split in two.
            is_guess = only is not None and not _is_named_by(folder, only)
            use_it = only is not None and (is_guess or not _is_named_by(folder, named))
            self._remember(folder, only if use_it and only is not None else named)
        return self._of_folder[folder]

    def is_known(self, path: str, named: str) -> bool:
        """Whether the cluster is certain, so that waiting for more lines does not help."""
        folder = Path(path).parent
        return (
            folder in self._of_folder
            or _is_named_by(folder, named)
            or len(self._beside.get(folder.parent, ())) == 1
        )

    def _remember(self, folder: Path, cluster: str) -> None:
        self._of_folder[folder] = cluster
        self._beside.setdefault(folder.parent, set()).add(cluster)


def _is_named_by(folder: Path, cluster: str) -> bool:
    """Whether the name came from lines; False: it is the name of a folder or the default."""
    return cluster not in (folder.name, folder.parent.name, "default")
