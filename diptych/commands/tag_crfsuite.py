"""``tag import`` and ``tag export``: model files of crfsuite."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import ClassVar

from diptych.commands.options import Command, Saved, argument, flag
from diptych.commands.output import Report
from diptych.commands.tag_files import info_of
from diptych.crfsuite import read_model, write_model
from diptych.crfsuite.taggers import crfsuite_of, tagger_of
from diptych.files.columns import Layout
from diptych.files.items import ITEMS
from diptych.files.models import load_model, save_model


class Import(Command):
    """Make a model of crfsuite's model file; it tags files of crfsuite's items."""

    file: str = argument("a model file of crfsuite, python-crfsuite or sklearn-crfsuite")
    save: str | None = flag()
    encoding: str | None = flag()
    most_bytes: int = flag()

    def run(self, panel: ModuleType) -> Report:
        if self.save is None:
            raise ValueError("--save: name the file for the model")
        theirs = read_model(self.file, encoding=self.encoding or "utf-8", most_bytes=self.most_bytes)
        try:
            model, w = tagger_of(panel, theirs)
        except ValueError as problem:
            raise ValueError(f"{self.file}: {problem}") from None
        layout = Layout(ITEMS, "items", None, "tab", self.encoding)
        save_model(self.save, model, w, {"file": self.file, **info_of(layout)})
        counts = {"labels": len(theirs.labels), "attributes": len(theirs.attributes), "weights": model.size}
        told = ", ".join(f"{count} {what}" for what, count in counts.items())
        return Report({"file": self.file, **counts, "saved": self.save}, [f"{self.file}: {told}", f"saved {self.save}"])


class Export(Saved):
    """Write a model as crfsuite's model file, which python-crfsuite opens; it tags alike."""

    file: str = argument("the file to write")
    most_bytes: int = flag()

    writes: ClassVar[tuple[str, ...]] = ("file",)

    def run(self, panel: ModuleType) -> Report:
        model, w, _ = load_model(self.model, panel, most_bytes=self.most_bytes)
        try:
            theirs = crfsuite_of(model, w)
        except ValueError as problem:
            raise ValueError(f"{self.model}: {problem}") from None
        write_model(self.file, theirs)
        if model.templates is not None and not self.quiet:
            print(f"{self.file}: its attributes are those of the model's templates", file=sys.stderr)
        fields = {"labels": len(theirs.labels), "weights": int((w != 0).sum()), "saved": self.file}
        return Report(fields, [f"{fields['weights']} weights of {fields['labels']} labels", f"saved {self.file}"])
