"""The options of the command line."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diptych.commands.jobs import (
    EPOCHS,
    INNER,
    LOSSES,
    OPTIMIZERS,
    SAMPLERS,
    SCHEDULES,
    SMOOTHINGS,
    STOPS,
    UPDATES,
    WARM_STARTS,
)
from diptych.commands.kernel_jobs import add_kernels
from diptych.commands.regularizers import add_regularizer
from diptych.commands.sparse_jobs import add_sparse
from diptych.panels import PANELS
from reference.archives import MOST_BYTES

__all__ = ["add_casimir", "add_most_bytes", "add_run", "count", "large", "number", "parser"]

LONGEST = 80  # characters of what was given that an error repeats


def parser(
    run: Mapping[str, Callable[..., Any]], version: str, *more: Callable[[Any], None]
) -> argparse.ArgumentParser:
    """The parser of ``diptych``; ``run`` has the function of each command by name, ``more`` add commands of their own."""
    whole = _Parser(
        prog="diptych", description="Train, evaluate and compare structured predictors.", allow_abbrev=False
    )
    whole.set_defaults(panel="accelerated")
    whole.add_argument("--version", action="version", version=f"diptych {version}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, summary: str, description: str | None = None) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=description or summary, allow_abbrev=False)
        sub.set_defaults(command=run[name], name=name)
        sub.add_argument("--json", action="store_true", help="print everything as one JSON object")
        sub.add_argument("--quiet", action="store_true", help="no progress bar")
        return sub

    sub = command("train", "train a sequence labeller and report objective, accuracy and seconds")
    _add_data(sub)
    _add_job(sub)
    add_kernels(sub, number)
    add_sparse(sub, number, count, positions=True)
    sub.add_argument("--save", metavar="FILE", help="write the model (.npz, loads in either panel)")
    add_run(sub, start=True)
    sub.add_argument(
        "--plot", metavar="FILE", help="write the convergence curve, or the path of sparse-crf (.png, .pdf or .svg)"
    )

    for name, summary in (
        ("evaluate", "accuracy of a saved model"),
        ("predict", "labels that a saved model gives, a line for each sequence"),
    ):
        sub = command(name, summary)
        sub.add_argument("model", help="a file written by train --save")
        sub.add_argument("data", help="'letters', or a sequence file (.npz)")
        sub.add_argument("--fold", type=count, help="only the sequences of this fold")
        add_most_bytes(sub)

    sub = command(
        "compare",
        "run one job in both panels and show them side by side",
        "Run one job in both panels from one rng and one start, side by side. The start is 1e-6 times normal draws of the rng and "
        "not zero: at w = 0 every argmax of the hinge loss is a tie, and two correct panels may part there by a whole step.",
    )
    _add_data(sub)
    _add_job(sub)
    sub.set_defaults(scale=1e-6)
    sub.add_argument("--plot", metavar="FILE", help="write both convergence curves (.png, .pdf or .svg)")

    sub = command("demo", "both panels learn to read handwritten words; pictures of what they read")
    sub.add_argument("--output", default="demo", metavar="FOLDER", help="where the pictures go (default: demo)")
    sub.add_argument("--epochs", type=count, default=3, help="passes over the words (default: 3)")
    sub.add_argument("--limit", type=count, default=2500, help="number of words to train on (default: 2500)")
    for add in more:
        add(commands)
    return whole


def add_run(sub: argparse.ArgumentParser, *, start: bool) -> None:
    """The options of every command that trains; ``start``: of one with optimisers that take a start."""
    sub.add_argument("--log", metavar="FILE", help="write the job, each epoch as it comes and the outcome: a line of JSON each")  # fmt: skip
    sub.add_argument("--checkpoint", metavar="FILE", help="keep what the run needs to go on (.npz)")
    sub.add_argument("--resume", metavar="FILE", help="go on from a checkpoint, by the same options, to --epochs in all; adds to --log")  # fmt: skip
    if start:
        sub.add_argument("--start", metavar="MODEL", help="start from the weights of a saved model, whose settings are used")  # fmt: skip


def _add_data(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("data", help="'letters', or a sequence file (.npz; see diptych/files/sequences.py)")
    sub.add_argument("--fold", type=count, help="train on the other folds, test on this one")
    sub.add_argument("--reverse", action="store_true", help="with --fold: train on this fold, test on the others")
    sub.add_argument("--limit", type=count, help="only so many sequences, spread evenly")
    add_most_bytes(sub)


def _add_job(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--loss",
        choices=sorted(LOSSES),
        default=argparse.SUPPRESS,
        help="crf: log loss; hinge: structural SVM (default: crf; of mkl: hinge)",
    )
    sub.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default=argparse.SUPPRESS, help="default: sgd")
    sub.add_argument("--lam", type=number, default=argparse.SUPPRESS, help="weight of lam/2 ||w||^2 (default: 0.01)")
    each = ", ".join(f"{name} {epochs}" for name, epochs in EPOCHS.items())
    sub.add_argument(
        "--epochs",
        type=count,
        help=f"passes, or iterations of L-BFGS (default: {each}); of sparse-crf, iterations for each beta (10000)",
    )
    sub.add_argument(
        "--rng", type=large, default=argparse.SUPPRESS, help="seed of the orders and the start (default: 0)"
    )
    sub.add_argument(
        "--average",
        choices=("weighted", "uniform", "last"),
        help="iterate that sgd, svrg, bcfw, multisample or online-proximal returns",
    )
    sub.add_argument(
        "--smoothing", choices=SMOOTHINGS, help="of the hinge (default: none; entropy for svrg and casimir)"
    )
    sub.add_argument(
        "--mu",
        type=number,
        help="strength of the smoothing (casimir's default: decreasing; of casimir-svrg-const 1, of -adapt 2 to begin with); temperature of --sampler gibbs",
    )
    sub.add_argument(
        "--k", type=count, help="with --smoothing top-k, or of multisample: number of outputs (default: 5)"
    )
    sub.add_argument("--sampler", choices=SAMPLERS, help="multisample's outputs: the k best, or drawn (default: topk)")
    sub.add_argument(
        "--update", choices=UPDATES, help="multisample's update: expand and swap moves, or exact (default: moves)"
    )
    add_casimir(sub)
    add_regularizer(sub, number)
    sub.add_argument(
        "--tol",
        type=number,
        help="svrg, casimir, bcfw, multisample, cutting-planes, sparse-crf: stop at this gap, relative to the objective (of sparse-crf: 1e-6)",
    )
    sub.add_argument(
        "--schedule",
        choices=sorted(SCHEDULES),
        help="step sizes of sgd (default: 1/(lam (t + max(n, 1/lam)))) and online-proximal (default: inverse-sqrt of 0.1)",
    )
    sub.add_argument(
        "--step-size",
        type=number,
        help="of sgd and online-proximal: gamma0, or a constant step without --schedule; of svrg and casimir: the step; of mkl: eta0 of eta0/sqrt(t) (default: 1)",
    )
    sub.add_argument(
        "--step-offset",
        type=number,
        help="with --schedule pegasos: 1/(lam (t + offset)); of online-proximal, sigma for lam",
    )
    sub.add_argument("--step-every", type=number, help="with --schedule steps: gamma0/(1 + floor(t / this))")
    sub.add_argument(
        "--no-start-stop",
        dest="start_stop",
        action="store_false",
        default=argparse.SUPPRESS,
        help="no weights for starting and ending",
    )


def add_most_bytes(sub: argparse.ArgumentParser) -> None:
    """The option of every command that reads compressed files."""
    sub.add_argument("--most-bytes", type=large, default=MOST_BYTES, metavar="N", help=f"what a compressed file may hold where the file itself is smaller (default: {MOST_BYTES})")  # fmt: skip


def add_casimir(sub: argparse.ArgumentParser) -> None:
    """The options that Casimir alone has."""
    sub.add_argument("--kappa", type=number, help="casimir's proximal weight (default: from the data; of casimir-svrg-adapt: lam)")  # fmt: skip
    sub.add_argument("--inner", choices=list(INNER), help="what solves casimir's subproblems (default: svrg)")
    sub.add_argument("--stop", choices=STOPS, help="casimir's subproblems end after one pass, or by their gradient (default: budget)")  # fmt: skip
    sub.add_argument("--warm-start", choices=WARM_STARTS, help="where casimir's subproblems start (default: center)")


def number(text: str) -> float:
    """An option that is a finite number >= 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"expected a finite number >= 0, got {text:.{LONGEST}}")
    return value


def count(text: str) -> int:
    """An option that is an integer >= 0, of 31 bits: what is counted has to fit into memory."""
    return _whole(text, 2**31 - 1)


def large(text: str) -> int:
    """An option that is an integer >= 0, of 63 bits: a seed, a number of bytes."""
    return _whole(text, 2**63 - 1)


def _whole(text: str, most: int) -> int:
    digits = text.strip()
    value = int(digits) if digits.isdecimal() and len(digits) <= LONGEST else -1
    if not 0 <= value <= most:
        bound = f" and <= {most}" if digits.isdecimal() else ""
        raise argparse.ArgumentTypeError(f"expected an integer >= 0{bound}, got {text:.{LONGEST}}")
    return value


class _Parser(argparse.ArgumentParser):
    """Takes ``--panel``, before and after the name of a command; says what is wrong in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.add_argument("--panel", choices=PANELS, default=argparse.SUPPRESS, help="which panel computes: reference to read, accelerated to run (default)")  # fmt: skip

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As argparse does, but no word may be empty, and no value "--", for want of which argparse ends in a
        traceback."""
        words = sys.argv[1:] if args is None else list(args)
        for before, word in zip(["", *words], words, strict=False):
            name, equals, value = word.partition("=")
            if name.startswith("--") and equals and value in ("", "--"):
                self.error(f"argument {name}: expected a value, got {value!r}")
            if not word:
                self.error(f"expected a value, got '' after {before or self.prog}")
        return super().parse_args(words, namespace)

    def error(self, message: str) -> Any:
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")
