"""The dual variables of partitions, in files, so that none are lost with a worker.

A round reads the files of the round before and writes new ones. So each task can be repeated. All workers must see the
folder.
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
    """Identifies the dual variables of all partitions.

    They are ``share`` times the variables that round ``number`` wrote, plus 1 - ``share`` times those before the round.
    number: 0 is the start. share: in (0, 1].
    """

    number: int
    share: float


_LATEST: dict[tuple[str, int], tuple[int, Any]] = {}  # the last content this process wrote for a partition
_LOCK = threading.Lock()


class Duals(NamedTuple):
    """The files of a run in a folder. keep: whether a process also keeps its last content in memory."""

    folder: str
    keep: bool

    def path(self, k: int, number: int) -> Path:
        """The file of partition k and round ``number``."""
        return Path(self.folder) / f"{k}-{number}.dual"

    def read(self, k: int, number: int) -> Any:
        """The content that round ``number`` wrote for partition k. The caller may change it.

        Raises
        ------
        FileNotFoundError
            This process does not see the folder, or the file was removed.
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
        """Write the content of round ``number`` for partition k, and remove the files of the rounds ``drop``."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        path = self.path(k, number)
        part = path.with_suffix(f".{uuid.uuid4().hex}.part")  # another worker may write the same file
        with part.open("wb") as file:
            pickle.dump(content, file, protocol=pickle.HIGHEST_PROTOCOL)
        os.replace(part, path)
        if self.keep:
            with _LOCK:
                _LATEST[self.folder, k] = number, content
        for old in drop:
            self.path(k, old).unlink(missing_ok=True)
