"""The laws: the methods and instances that each structure is checked on, and the check of a library by one of them."""

from __future__ import annotations

import inspect
import warnings
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any, NamedTuple

import hypothesis
import numpy as np
from hypothesis import strategies as st

from conformance.adapters import NotOffered
from conformance.adapters import instances as kinds
from conformance.adapters.checks import Wrong, check
from conformance.adapters.instances import instances, numbers, shown
from conformance.specimens.outputs import Listing, listing
from conformance.specimens.scores import members
from reference import ChainScores

__all__ = ["EXAMPLES", "LAWS", "Law", "Outcome", "fits", "hold", "note_of"]

EXAMPLES = 20  # instances of each law and size
VERDICTS = ("fails", "holds", "not offered")


class Law(NamedTuple):
    """A method of a structure, and a kind of instances."""

    structure: str
    method: str
    kind: str

    def __str__(self) -> str:
        return f"{self.structure}.{self.method}, {self.kind}"


class Outcome(NamedTuple):
    """verdict: one of VERDICTS; the smallest instance that fails and what was seen on it, or why the library has no
    counterpart.
    """

    verdict: str
    instance: str = ""
    seen: str = ""


ANSWERS = ("best", "topk", "log_partition", "marginals", "log_probability")
KINDS = ("ordinary", kinds.FORBIDDEN, kinds.LARGE, kinds.SMALL, kinds.MIXED, kinds.SINGLE)  # for all structures
ROOTS = ("one root", f"one root and {kinds.FORBIDDEN}")
ASKED = {  # the methods of each structure, and its kinds beside KINDS
    "Chain": (ANSWERS, ("one label", kinds.RAGGED, kinds.PADDED)),
    "Arborescence": (ANSWERS, ROOTS),
    "ProjectiveTree": (ANSWERS, (*ROOTS, kinds.BESIDE)),
    "SpanTree": (ANSWERS, ()),
    "Cut": (("best",), ()),
    "Matching": (("best",), (kinds.RECTANGLES,)),
}
SOME = {  # kinds for these methods alone
    kinds.MORE: ("topk",),
    kinds.NOTHING: ("best", "topk", "log_partition"),
    kinds.KEPT: ("best", "log_partition"),
}
LAWS = tuple(
    Law(structure, method, kind)
    for structure, (methods, own) in ASKED.items()
    for method in methods
    for kind in (*KINDS, *own, *(kind for kind, of in SOME.items() if method in of))
)


def fits(law: Law, patterns: str) -> bool:
    """Whether one of the patterns of ``KNOWN`` is of a law."""
    return any(fnmatchcase(str(law), pattern) for pattern in patterns.split("|"))


def note_of(law: Law, library: ModuleType) -> str | None:
    """What is known of the failure of a law, where the library has what it requires."""
    structure = getattr(library, law.structure, None)
    if structure is None or not offers(structure, law):
        return None
    return next((note for patterns, note in getattr(library, "KNOWN", {}).items() if fits(law, patterns)), None)


def hold(law: Law, library: ModuleType, examples: int = EXAMPLES) -> Outcome:
    """Hold a library to a law on drawn instances, the same ones each time; the smallest sizes come first."""
    structure = getattr(library, law.structure, None)
    if structure is None or not offers(structure, law):
        return Outcome("not offered")
    outcomes = []
    if law in kinds.MET:
        outcomes.append(ask(law, structure, *kinds.MET[law]))
    for strategy in instances(law.structure, law.kind):
        if any(outcome.verdict == "fails" for outcome in outcomes):
            break
        outcomes.append(drawn(law, structure, strategy, examples))
    return min(outcomes, key=lambda outcome: (VERDICTS.index(outcome.verdict), not outcome.seen))


def drawn(law: Law, structure: type, strategy: st.SearchStrategy[dict[str, Any]], examples: int) -> Outcome:
    """The outcome on instances of one size: the smallest that fails, if one does."""
    refused, failed, answered = Outcome("not offered"), Outcome("holds"), False

    @hypothesis.settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
        report_multiple_bugs=False,
    )
    @hypothesis.given(instance=strategy, k=st.integers(1, 9))
    def run(instance: dict[str, Any], k: int) -> None:
        nonlocal refused, failed, answered
        outcome = ask(law, structure, instance, k)
        if outcome.verdict == "not offered":
            refused = max(refused, outcome, key=lambda each: each.seen)
            hypothesis.reject()
        if outcome.verdict == "fails":
            failed = outcome
            raise Wrong
        answered = True

    try:
        run()
    except hypothesis.errors.Unsatisfiable:
        pass
    except Wrong:
        return failed
    return failed if answered else refused


def ask(law: Law, structure: type, instance: dict[str, Any], k: int) -> Outcome:
    """The outcome on one instance; "not offered" also where it is none of this kind."""
    listings = listed(law.structure, instance)
    if any(each.scores.max() == -np.inf for each in listings) != (law.kind == kinds.NOTHING):
        return Outcome("not offered")
    if kinds.FORBIDDEN in law.kind and not any(np.any(field == -np.inf) for field in instance.values()):
        return Outcome("not offered")
    text = shown(instance)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            asked = structure(**instance)
            before = state(asked, instance)
            if law.kind == kinds.BESIDE:
                structure(**instance, single_root=True)
            check(law.method, law.kind, asked, instance, listings, k)
        if law.kind == kinds.KEPT:
            kept(before, state(asked, instance))
    except NotOffered as problem:
        return Outcome("not offered", seen=str(problem))
    except Wrong as problem:
        return Outcome("fails", text, str(problem))
    except Exception as problem:
        if law.kind != kinds.NOTHING:  # where every output is forbidden, an exception says so
            said = str(problem).strip().split("\n")[0]
            return Outcome("fails", text, f"raises {type(problem).__name__}" + (f": {said[:90]}" if said else ""))
    return Outcome("holds")


def listed(structure: str, instance: dict[str, Any]) -> list[Listing]:
    """The outputs of an instance, or of each member of a batch of chains."""
    each = [one._asdict() for one in members(ChainScores(**instance))] if "lengths" in instance else [instance]
    return [listing(structure, one) for one in each]


def offers(structure: type, law: Law) -> bool:
    """Whether the library's structure has what the law requires: batches, single roots, the method."""
    arguments = inspect.signature(structure).parameters
    if law.kind in (kinds.RAGGED, kinds.PADDED) and "lengths" not in arguments:
        return False
    if (law.kind.startswith("one root") or law.kind == kinds.BESIDE) and "single_root" not in arguments:
        return False
    return hasattr(structure, law.method) or (law.method == "log_probability" and hasattr(structure, "score"))


def state(asked: object, instance: dict[str, Any]) -> list[tuple[str, bool]]:
    """Of the arrays or tensors that a library was handed: the numbers, and whether it records gradients."""
    handed = getattr(asked, "handed", instance.values())
    return [(numbers(x), getattr(x, "requires_grad", False)) for x in handed]


def kept(before: list[tuple[str, bool]], after: list[tuple[str, bool]]) -> None:
    for (numbers_before, gradient_before), (numbers_after, gradient_after) in zip(before, after, strict=True):
        if numbers_before != numbers_after:
            raise Wrong(f"{numbers_before} has become {numbers_after}")
        if gradient_before != gradient_after:
            raise Wrong("`requires_grad` has been set on the tensor that was handed over")
