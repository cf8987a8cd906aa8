"""The experiments by name, each with its paper, its topic and its data."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import NamedTuple

PILLUTLA = "Pillutla et al. (2018)"
MARTINS = "Martins et al. (2010)"
ZHANG = "Zhang and Qiu (2019)"
BRANSON = "Branson et al. (2013)"
MADE = "none (made up)"
LETTERS = "none (the letters of the package)"
ENTITIES = "conll2002.zip"
CHUNKS = "conll2000.zip"
TREES = "dependency_treebank.zip"
FULL = ("--sentences", "8323", "--repeats", "10")  # all of the training sentences, seeds of the paper
SEEDS = (*FULL[:3], "3")


class Experiment(NamedTuple):
    """An experiment: module with ``main(name, arguments)``, paper, place in the paper, topic, data, measured time; the
    options of its published results.
    """

    module: str
    paper: str
    where: str
    shows: str
    data: str
    time: str = ""
    published: tuple[str, ...] = ()


EXPERIMENTS = {
    "casimir-figure-2": Experiment("casimir_paper", PILLUTLA, "Figure 2",
        "optimisers of a structural SVM for named entities", ENTITIES, published=FULL),
    "casimir-figure-3": Experiment("localization", PILLUTLA, "Figure 3", "optimisers of linear scores of boxes", MADE),
    "casimir-figure-4": Experiment("localization", PILLUTLA, "Figure 4", "two layers: SGD against prox-linear", MADE),
    "casimir-figure-5a": Experiment("casimir_paper", PILLUTLA, "Figure 5 (a)", "level of smoothing", ENTITIES,
        published=SEEDS),
    "casimir-figure-5b": Experiment("casimir_paper", PILLUTLA, "Figure 5 (b)", "smooth or not", ENTITIES,
        published=SEEDS),
    "casimir-figure-5c": Experiment("casimir_paper", PILLUTLA, "Figure 5 (c)", "warm starts", ENTITIES,
        published=SEEDS),
    "casimir-figure-5d": Experiment("casimir_paper", PILLUTLA, "Figure 5 (d)", "number of outputs K", ENTITIES,
        published=SEEDS),
    "casimir-figure-6": Experiment("localization", PILLUTLA, "Figure 6", "prox-linear: smoothing", MADE),
    "casimir-figure-7": Experiment("localization", PILLUTLA, "Figure 7", "prox-linear: eta, budget, warm starts", MADE),
    "casimir-reasons": Experiment("casimir_paper", PILLUTLA, "Figure 2, one change at a time",
        "Casimir-SVRG-const by smoothing, kappa, start, average and step", ENTITIES, published=("--repeats", "3")),
    "casimir-reasons-dutch": Experiment("casimir_paper", PILLUTLA, "Figure 2, one change at a time, in Dutch",
        "the same on Dutch sentences", ENTITIES, published=("--sentences", "1000", "--repeats", "3")),
    "casimir-slopes": Experiment("slopes", PILLUTLA, "Propositions 29 to 32", "oracle calls as the accuracy is raised",
        MADE),
    "casimir-table-2": Experiment("table2", PILLUTLA, "Table 2", "oracles of each structure: operations and times",
        MADE),
    "exponentiated-gradient": Experiment("exponentiated", "", "", "CRF taggers by exponentiated gradient", CHUNKS),
    "letters-accuracy": Experiment("letters_accuracy", "", "", "CRF and structural SVM by the folds of the letters",
        LETTERS),
    "mkl-figure-1": Experiment("parsing_templates", MARTINS, "Figure 1, bottom right",
        "templates chosen by SVM and MKL", TREES, published=("--epochs", "8")),
    "mkl-table-1": Experiment("handwriting", MARTINS, "Table 1, handwriting", "one kernel, averages, MKL", LETTERS),
    "multisample-gaps": Experiment("multisample", BRANSON, "gap against calls", "multi-sample dual updates", TREES),
    "neural-chunks": Experiment("neural", "", "", "chunks by a BiLSTM with ChainCRF, beside a linear CRF", CHUNKS,
        "under a minute on one core"),
    "neural-trees": Experiment("neural", "", "", "heads by a BiLSTM with DependencyCRF, beside a linear SVM", TREES,
        "under a minute on one core"),
    "out-of-core": Experiment("out_of_core", "", "", "a tagger on more data than memory: peak bytes", CHUNKS),
    "parsing": Experiment("parsing", "", "", "the parser on a treebank: seconds, memory, heads", TREES),
    "partial-labels": Experiment("partial_labels", "", "", "CRFs of labels of single tokens, or of sentences", CHUNKS),
    "scale": Experiment("scale", "", "", "passes over partitions: measured, fitted, carried further", MADE),
    "screening-chains": Experiment("sparse_chains", ZHANG, "beyond the paper: chains",
        "what the gap removes, on letters or chunks", f"letters, or {CHUNKS}",
        "chunks to a gap of 1e-3: 3.5 minutes on one core"),
    "screening-table-1": Experiment("sparse_table", ZHANG, "Table 1", "seconds and work by each rule", LETTERS),
    "ssvm-optimizers": Experiment("ssvm_table", "", "", "every optimiser of the structural SVM on one problem",
        LETTERS),
    "tagging": Experiment("tagging", "", "", "taggers on the shared tasks: seconds and F1", CHUNKS),
    "all": Experiment("everything", "", "", "every experiment of the papers, one after another", "a folder of zips"),
}  # fmt: skip


def perform(name: str, arguments: Sequence[str]) -> int:
    """Run an experiment with its options and return the exit status."""
    module = importlib.import_module(f"diptych.experiments.{EXPERIMENTS[name].module}")
    status: int = module.main(name, arguments)
    return status
