"""The dual variables of partitions, in files: a worker that is lost takes none of them with it.

A round reads the file of the round before and writes another one, so that each task can be repeated. All workers must
see the folder.
"""

from __future__ import annotations

import os
import pickle
import threading
import uuid
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Duals", "Stand"]


class Stand(NamedTuple):
    """Dual variables of all partitions: those that round ``number`` wrote, mixed with those before it by ``share``.

    number 0: the start. share: in (0, 1].
    """

    number: int
    share: float


_LATEST: dict[tuple[str, int], tuple[int, Any]] = {}  # of this process: what it wrote last for a partition
_LOCK = threading.Lock()


class Duals(NamedTuple):
    """The files of a run in a folder. keep: whether a process also keeps in memory what it wrote last."""

    folder: str
    keep: bool

    def path(self, k: int, number: int) -> Path:
        """The file of partition k and round ``number``."""
        return Path(self.folder) / f"{k}-{number}.dual"

    def read(self, k: int, number: int) -> Any:
        """What round ``number`` wrote for partition k; the caller may change it.

        Raises
        ------
        FileNotFoundError
            The folder is not seen here, or the file was removed.
        """
        with _LOCK:
            latest = _LATEST.pop((self.folder, k), None)
        if latest is not None and latest[0] == number:
            return latest[1]
        try:
            return pickle.loads(self.path(k, number).read_bytes())
        except FileNotFoundError:
            raise FileNotFoundError(
                f"folder: {self.folder} has no dual variables of partition {k} after round {number}; all workers must "
                "see this folder, and a run can be resumed while it has the files of the checkpoint"
            ) from None

    def write(self, k: int, number: int, content: Any, drop: tuple[int, ...]) -> None:
        """Write what round ``number`` leaves, and remove the files of the rounds ``drop``."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        path = self.path(k, number)
        part = path.with_suffix(f".{uuid.uuid4().hex}.part")  # another worker may write the same
        with part.open("wb") as file:
            pickle.dump(content, file, protocol=pickle.HIGHEST_PROTOCOL)
        os.replace(part, path)
        if self.keep:
            with _LOCK:
                _LATEST[self.folder, k] = number, content
        for old in drop:
            self.path(k, old).unlink(missing_ok=True)
