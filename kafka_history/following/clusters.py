"""Which cluster a followed file belongs to, when only the beginnings of files are known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kafka_history.following.positions import Position


class Clusters:
    """Which cluster a folder belongs to: decided once, for all files that will ever be in it."""

    def __init__(self, positions: Iterable[Position]) -> None:
        self._of_folder: dict[Path, str] = {}
        self._beside: dict[Path, set[str]] = {}
        for position in positions:
            if position.kind is not None:
                self._remember(Path(position.path).parent, position.cluster)

    def of(self, path: str, named: str) -> str:
        """The cluster of a new file, of which its own lines say ``named``."""
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
            # A name from the path was a guess: what comes later must not split the cluster in two.
            is_guess = only is not None and not _is_named_by(folder, only)
            use_it = only is not None and (is_guess or not _is_named_by(folder, named))
            self._remember(folder, only if use_it and only is not None else named)
        return self._of_folder[folder]

    def is_known(self, path: str, named: str) -> bool:
        """Whether nothing better can be learnt by waiting."""
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
    """Whether the lines contained it; else it is a folder's name."""
    return cluster not in (folder.name, folder.parent.name, "default")
