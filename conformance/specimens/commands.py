"""Commands that train: the words of a short run, how its model is scored and applied, and what both must agree on.

They run in a folder with the files of ``conformance.specimens.requests.prepare``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["COMMANDS", "STARTS", "Command"]


class Command(NamedTuple):
    """``task train data options``; MODEL stands for the saved model in the words that score and apply it.

    ``agree(report, scores)`` gives what a training's report and an evaluation on its data say of one model.
    """

    task: list[str]
    data: list[str]
    options: list[str]
    evaluate: list[str]
    predict: list[str]
    agree: Callable[[Any, Any], tuple[Any, Any]]
    epochs: tuple[int, int] = (1, 3)  # of a run that is cut, and of the whole one
    checkpoint: bool = True
    shown: tuple[str, str] = ("labels", "a")  # what ``show`` has: a key, and one of what stands there

    def train(self, *more: object) -> list[str]:
        """The words of a training."""
        return [*self.task, "train", *self.data, *self.options, *map(str, more)]


def _command(
    task: str, data: str, options: str, evaluate: str, predict: str, agree: Callable[[Any, Any], Any], **others: Any
) -> Command:
    """Of words in a string."""
    words = (given.split() for given in (data, options, f"{task} evaluate {evaluate}", f"{task} predict {predict}"))
    return Command(task.split(), *words, agree, **others)


def _agreeing(*names: str) -> Callable[[Any, Any], Any]:
    """Some scores of a training's data are those of an evaluation."""
    return lambda report, scores: (report["train"], {name: scores[name] for name in names})


def _of_sequences(options: str, **others: Any) -> Command:
    """``train`` on the file of sequences."""
    agree = lambda report, scores: (report["train"], scores["accuracy"])  # noqa: E731
    return _command("", "toy.npz", options, "MODEL toy.npz", "MODEL toy.npz", agree, **others)


def _of_columns(options: str, label: str = "B-NP", **others: Any) -> Command:
    """``tag train`` on the file of columns."""
    predict = "MODEL bank.txt --top 2 --probabilities"
    agree = _agreeing("accuracy", "chunks")
    return _command("tag", "bank.txt", options, "MODEL bank.txt", predict, agree, shown=("labels", label), **others)


def _of_trees(data: str, options: str, examples: str = "") -> Command:
    """``parse train`` on trees."""
    predict = "MODEL bank.dp --top 2 --draw"
    agree = _agreeing("uas", "uas_without_punctuation")
    return _command("parse", data, options, f"MODEL {data} {examples}", predict, agree, shown=("sizes", "bits"))


ONCE = {"epochs": (20, 20), "checkpoint": False}
COMMANDS = {
    "letters": _of_sequences("--optimizer svrg --lam 0.1"),
    "letters by online-proximal": _of_sequences("--optimizer online-proximal --regularizer l2 --lam 0.1"),
    "letters by kernels": _of_sequences(
        "--learner mkl --kernels linear,gaussian --transitions each --loss crf", shown=("beta", "gaussian")
    ),
    "letters by a path": _of_sequences("--learner sparse-crf --path 2 --ratio 0.3", **ONCE),
    "letters by positions": _of_sequences("--learner sparse-crf --positions --beta-share 0.3", **ONCE),
    "letters over partitions": _of_sequences("--partitions 2 --optimizer lbfgs"),
    "tag": _of_columns("--optimizer exponentiated-gradient --tol 0"),
    "tag over partitions": _of_columns("--partitions 2 --optimizer cocoa --tol 0"),
    "parse": _of_trees("sentences", "--limit 9 --bits 8 --templates 20 --tol 0", "--limit 9"),
    "parse over partitions": _of_trees("bank.dp", "--partitions 2 --bits 9"),
    "align": _command(
        "align",
        "some.tsv",
        "--tol 0",
        "MODEL some.tsv",
        "MODEL left.txt right.txt",
        lambda report, scores: (report["train"], scores["accuracy"]),
        shown=("features", "no partner"),
    ),
    "segment": _command(
        "segment",
        "clean.npz",
        "--tol 0",
        "MODEL clean.npz",
        "MODEL noisy.pbm",
        lambda report, scores: (report["train"], scores["error"]),
        shown=("features", "edge"),
    ),
    "localize": _command(
        "localize",
        "spots.boxes",
        "--class left --optimizer sgd",
        "spots.boxes MODEL",
        "spots.boxes MODEL",
        lambda report, scores: (report["classes"][0]["train"], scores["models"][0]),
        shown=("trained", "class"),
    ),
    "tag by l1": _of_columns("--l1 0.02 --lam 0.01 --tol 0", epochs=(3, 6)),
    "tag by segments": _of_columns("--segments 2 --tol 0", label="NP"),
    "tag by a path of l1": _of_columns("--path 3 --dev bank.txt --c2 0.1 --ratio 0.01", **ONCE),
    "tag by l1 over partitions": _of_columns("--c1 0.1 --partitions 2 --tol 0"),
}

# the words of a training, and of one of the same problem that may start from its model
STARTS = [
    ("train toy.npz --optimizer svrg --lam 0.1 --no-start-stop", "train toy.npz --optimizer lbfgs --lam 0.1"),
    ("train toy.npz --partitions 2 --optimizer lbfgs", "train renamed.npz --partitions 3 --optimizer lbfgs"),
    ("tag train bank.txt --templates words", "tag train bank.txt --optimizer lbfgs"),
    ("tag train bank.txt --partitions 2 --optimizer lbfgs", "tag train bank.txt --partitions 2 --optimizer lbfgs"),
    (
        "parse train bank.dp --partitions 2 --bits 9 --loss crf --optimizer lbfgs",
        "parse train bank.dp --partitions 2 --loss crf --optimizer lbfgs",
    ),
    (
        "parse train sentences --limit 9 --bits 8 --templates 20 --lam 0.1",
        "parse train sentences --limit 9 --optimizer sgd --lam 0.1",
    ),
    ("localize train spots.boxes --class left", "localize train spots.boxes --class left --optimizer sgd"),
    ("tag train bank.txt --segments 2", "tag train bank.txt --optimizer lbfgs"),
    ("tag train bank.txt --l1 0.02 --epochs 9", "tag train bank.txt --l1 0.02"),
]
