"""The cost of making scenes for localisation, and of opening a file of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from diptych.files.localization import load_localization, save_localization
from diptych.scenes import make_scenes


class Scenes:
    """Seconds for ten scenes of 200 candidates with 3 x 3 x 64 features, and for opening a file of scenes without
    reading the features.
    """

    def setup(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "scenes.boxes"
        save_localization(self.path, make_scenes(10), list("aegn"))

    def teardown(self):
        self.folder.cleanup()

    def time_make(self):
        for _ in make_scenes(10):
            pass

    def time_load(self):
        load_localization(self.path)

    def track_bytes_a_scene(self):
        return self.path.stat().st_size / 10
