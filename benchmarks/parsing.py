"""The parser on the forty sentences of the package."""

from __future__ import annotations

import accelerated
from diptych.experiments.parsing import BITS, updates
from diptych.files.treebank import load_treebank


class Epochs:
    """The package's forty sentences, repeated ten times: packing, an epoch of updates, parsing."""

    params = list(BITS)
    param_names = ("templates",)

    def setup(self, templates: str) -> None:
        self.sentences = 10 * load_treebank("sentences")
        self.model = accelerated.ParsingModel(templates, bits=BITS[templates], single_root=True)
        self.time_pack(templates)
        hinge = accelerated.StructuralHinge(self.model, self.data)
        self.sgd, self.bcfw = updates(hinge, "sgd"), updates(hinge, "bcfw")
        blocks = accelerated.ParsingModel(templates, bits=12, single_root=True, blocks=True)
        self.mkl = updates(accelerated.StructuralHinge(blocks, self.data), "online_proximal")
        self.w = self.sgd().x
        self.time_mkl_epoch(templates)
        self.time_bcfw_epoch(templates)
        self.time_predict(templates)

    def time_pack(self, templates: str) -> None:
        self.data = self.model.pack([s.fields() for s in self.sentences], [s.heads for s in self.sentences])

    def time_sgd_epoch(self, templates: str) -> None:
        self.sgd()

    def time_mkl_epoch(self, templates: str) -> None:
        self.mkl()

    def time_bcfw_epoch(self, templates: str) -> None:
        self.bcfw()

    def time_predict(self, templates: str) -> None:
        self.model.predict(self.data, None, self.w)
