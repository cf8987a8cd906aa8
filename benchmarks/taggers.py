"""CRF taggers beside crfsuite, on the same attributes: one sentence, training to an accuracy, memory, whole processes.

``python docs/figures.py taggers --chunks conll2000.zip`` prints the figures on CoNLL-2000: `figures`, and ``python
docs/figures.py spanish --entities conll2002.zip`` those on the Spanish names of CoNLL-2002. The suite uses made-up
sentences. Both sides minimise the sum of the log losses + ||w||^2, on one core.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import accelerated
from accelerated.threads import set_num_threads
from benchmarks.calls import microseconds
from diptych.elastic_net import elastic_net, elastic_net_path
from diptych.files.columns import load_columns
from reference import CountRule, ElasticNetCRF, HalfSpaceRule, L1GapRule, beta_max
from reference.algorithms import Centred, ExponentiatedGradient, counterpart
from reference.models.token_templates import atoms_of, check_templates, column_of
from reference.optimizers.centre import default_kappa
from reference.screening.scored import Answer
from reference.training.exponentiated_gradient import CentredGradient
from reference.training.solver import minimize

Sentence = dict[str, list[str]]
Plans = list[tuple[str, list[tuple[str, str, int]]]]
Line = tuple[str, float, str, float | None]


def made_up(n: int) -> list[Sentence]:
    """n sentences of 12 tokens: words by a law of Zipf, tags that follow them, labels that mostly do."""
    rng, sentences = np.random.default_rng(0), []
    for _ in range(n):
        words = np.minimum(rng.zipf(1.3, 12), 5000)
        labels = [f"B{i % 5}" if rng.random() < 0.8 else "O" for i in words]
        sentences.append({"word": [f"w{i}" for i in words], "tag": [f"t{i % 20}" for i in words], "label": labels})
    return sentences


def attributes(x: Sentence, plans: Plans) -> list[list[str]]:
    """The attributes of each token as a script of crfsuite finds them: a loop over templates."""
    n, rows = len(x["word"]), []
    for t in range(n):
        row = []
        for template, atoms in plans:
            if all(0 <= t + offset < n for _, _, offset in atoms):
                row.append(template + "=" + "|".join([x[column][t + offset] for column, _, offset in atoms]))
        if t > 0:
            row.remove("BOS=")
        if t < n - 1:
            row.remove("EOS=")
        rows.append(row)
    return rows


def plans_of(name: str) -> Plans:
    """The templates of a set, each with its atoms. A treated column is a column of its own, such as word.lower."""
    every = {template: atoms_of(template) for template in check_templates(name)}
    return [
        (template, [(f"{column}.{how}" if how else column, how, offset) for column, how, offset in atoms])
        for template, atoms in every.items()
    ]


def treated(x: Sentence, plans: Plans) -> Sentence:
    """The sentence with its treated columns."""
    needed = {(column, how) for _, atoms in plans for column, how, _ in atoms if how}
    return x | {column: column_of(x[column.removesuffix(f".{how}")], how) for column, how in needed}


class Crfsuite:
    """A tagger trained by crfsuite's L-BFGS. Raises ImportError if python-crfsuite is not installed."""

    def __init__(self, sentences: list[Sentence], iterations: int = 1000, templates: str = "chunks") -> None:
        import pycrfsuite

        self.plans = plans_of(templates)
        self.trainer = pycrfsuite.Trainer(verbose=False)
        for x in sentences:
            self.trainer.append(attributes(treated(x, self.plans), self.plans), x["label"])
        # without its own rule for stopping, which may end above the objective that is asked for
        self.trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": iterations, "epsilon": 0.0, "delta": 0.0})
        self.file = str(Path(tempfile.mkdtemp()) / "model")
        self.trainer.train(self.file)
        self.tagger = pycrfsuite.Tagger()
        self.tagger.open(self.file)

    def __call__(self, x: Sentence) -> list[str]:
        labels: list[str] = self.tagger.tag(attributes(treated(x, self.plans), self.plans))
        return labels

    def seconds_to(self, objective: float) -> float:
        """Seconds of the iterations up to the first of at most this objective; inf if there is none."""
        seconds = 0.0
        for row in self.trainer.logparser.iterations:
            seconds += row["time"]
            if row["loss"] <= objective:
                return seconds
        return float("inf")


def ours(sentences: list[Sentence], templates: str = "chunks") -> tuple[Any, Any, Any]:
    """Model, packed data and log loss."""
    Y = [x["label"] for x in sentences]
    model = accelerated.TaggingModel.of(sentences, Y, templates)
    data = model.pack(sentences, Y)
    return model, data, accelerated.LogLoss(model, data)


class OneSentence:
    """Seconds to tag one sentence of 12 tokens: attributes and labels."""

    params = ["bound tagger", "packed and predicted", "crfsuite"]
    param_names = ("tagger",)

    def setup(self, tagger: str) -> None:
        set_num_threads(1)
        sentences = made_up(300)
        x = sentences[0]
        if tagger == "crfsuite":
            try:
                peer = Crfsuite(sentences, 50)
            except ImportError:
                raise NotImplementedError("python-crfsuite is not installed") from None  # tells asv to skip
            self.run = lambda: peer(x)
        else:
            model, _, loss = ours(sentences)
            w = accelerated.lbfgs(loss, lam=2 / loss.n, iterations=20).x
            bound = model.bound(w)
            packed = lambda: model.predict(model.pack([x]), None, w)  # noqa: E731
            self.run = packed if tagger != "bound tagger" else lambda: bound([x])
        self.run()

    def time_sentence(self, tagger: str) -> None:
        self.run()


def peak() -> int:
    """The peak memory of this process in KiB, as Linux counts it; ``ru_maxrss`` would include the parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").split("\n")
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


# the benchmark's own imports would count
OURS = f"""
import sys
from pathlib import Path
import accelerated as sp
from diptych.files.columns import load_columns
{inspect.getsource(peak)}
sentences = load_columns(sys.argv[1])
Y = [x["label"] for x in sentences]
model = sp.TaggingModel.of(sentences, Y, "chunks")
data = model.pack(sentences, Y)
del sentences, Y
{{call}}
print(peak())
"""
TRAIN = {  # processes that read, train and print their peak memory in KiB
    "L-BFGS": OURS.format(call="sp.lbfgs(sp.LogLoss(model, data), lam=2 / data.n, iterations=50)"),
    "exponentiated gradient": OURS.format(
        call="sp.exponentiated_gradient(sp.LogLoss(model, data), lam=2 / data.n, epochs=5, rng=0)"
    ),
}


# the peer's processes import nothing of ours, whose imports take time and memory
PEER = f"""
from __future__ import annotations
import os, sys, tempfile
from pathlib import Path
import pycrfsuite
plans = {plans_of("chunks")!r}
{inspect.getsource(attributes)}
{inspect.getsource(peak)}
def blocks(path):
    for block in Path(path).read_text().strip().split("\\n\\n"):
        rows = [line.split() for line in block.split("\\n")]
        yield rows, {{"word": [row[0] for row in rows], "tag": [row[1] for row in rows]}}
"""
PEER_PREDICT = f"""{PEER}
tagger = pycrfsuite.Tagger()
tagger.open(sys.argv[1])
for rows, x in blocks(sys.argv[2]):
    for row, label in zip(rows, tagger.tag(attributes(x, plans))):
        print(*row, label)
    print()
"""


def peer_train(algorithm: str, **settings: float) -> str:
    """The program of a process of crfsuite that reads, trains and prints its peak memory in KiB."""
    return f"""{PEER}
trainer = pycrfsuite.Trainer({algorithm!r}, verbose=False)
for rows, x in blocks(sys.argv[1]):
    trainer.append(attributes(x, plans), [row[2] for row in rows])
trainer.set_params({settings!r})
trainer.train(os.path.join(tempfile.mkdtemp(), "model"))
print(peak())
"""


def process(*arguments: str) -> tuple[float, str]:
    """Wall-clock seconds and output of a Python process."""
    started = time.perf_counter()
    environment = dict(os.environ, PYTHONPATH=str(Path(__file__).parents[1]))
    run = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, env=environment)
    return time.perf_counter() - started, run.stdout


def figures(archive: str | None) -> Iterator[Line]:
    """Name, value, unit and target of each figure on CoNLL-2000; nothing without its archive."""
    if archive is None:
        print("  taggers: --chunks names no conll2000.zip", file=sys.stderr)
        return
    training, test = load_columns(f"{archive}:train.txt"), load_columns(f"{archive}:test.txt")
    model, data, loss = ours(training)
    accelerated.exponentiated_gradient(ours(training[:5])[2], lam=1.0, epochs=1)  # compiles
    started = time.perf_counter()
    result = accelerated.exponentiated_gradient(loss, lam=2 / data.n, tol=1e-4, epochs=60, evaluate_every=3, rng=0)
    seconds = time.perf_counter() - started
    yield "exponentiated gradient to a gap of 1e-4, packed data to weights", seconds, "s", None
    yield "of it in epochs", result.history[-1].seconds, "s", None
    loss.value_and_gradient(result.x)
    gradient = microseconds(lambda: loss.value_and_gradient(result.x))
    yield "gradient", 1e3 * gradient / data.rows.n, "ns a token", 600.0
    yield "value alone", 1e3 * microseconds(lambda: loss.value(result.x)) / data.rows.n, "ns a token", None
    yield from sparse_figures(loss)
    yield from screening_figures(training[:1500])
    accelerated.lbfgs(loss, lam=2 / data.n, iterations=1)
    started = time.perf_counter()
    run = accelerated.lbfgs(loss, lam=2 / data.n, iterations=50)
    whole = time.perf_counter() - started
    yield "L-BFGS, share outside gradients", 1 - run.oracle_calls / data.n * gradient * 1e-6 / whole, "", 0.15
    bound = model.bound(result.x)
    some = test[:100]
    one = microseconds(lambda: [bound([x]) for x in some]) / len(some)
    yield "one test sentence, bound tagger", one, "us", None
    with tempfile.TemporaryDirectory() as folder:
        train_file, test_file, saved = (str(Path(folder) / name) for name in ("train.txt", "test.txt", "ours.npz"))
        for file, sentences in ((train_file, training), (test_file, test)):
            lines = ["\n".join(map(" ".join, zip(x["word"], x["tag"], x["label"], strict=True))) for x in sentences]
            Path(file).write_text("\n\n".join(lines) + "\n", encoding="utf-8")
        process("-m", "diptych", "tag", "train", train_file, "--save", saved, "--epochs", "1", "--quiet")
        predict = ("-m", "diptych", "tag", "predict", saved, test_file)
        mine = min(process(*predict)[0] for _ in range(3))
        yield "tag predict, a process, 47,377 tokens", mine, "s", None
        for name in ("L-BFGS", "exponentiated gradient"):
            yield f"peak memory, {name}", int(process("-c", TRAIN[name], train_file)[1]) / 1024, "MiB", 473.0
        try:
            peer = Crfsuite(training)
        except ImportError:
            print("  python-crfsuite is not installed: no ratios", file=sys.stderr)
            return
        theirs = microseconds(lambda: [peer(x) for x in some]) / len(some)
        yield "one test sentence, crfsuite", theirs, "us", None
        yield "one test sentence / crfsuite", one / theirs, "ratio", 1.0
        there = peer.seconds_to(result.fun * data.n)
        yield "crfsuite's L-BFGS to the same objective", there, "s", None
        yield "exponentiated gradient / crfsuite's L-BFGS", seconds / there, "ratio", 0.08
        least = min(process("-c", PEER_PREDICT, peer.file, test_file)[0] for _ in range(3))
        yield "tag predict / a script of crfsuite", mine / least, "ratio", 1.0
        yield from certified_figures(training[:300], "chunks")
        for name, program in (
            ("L-BFGS", peer_train("lbfgs", c1=0.0, c2=1.0, max_iterations=50)),
            ("SGD", peer_train("l2sgd", c2=1.0, max_iterations=50)),
        ):
            yield f"peak memory, crfsuite's {name}", int(process("-c", program, train_file)[1]) / 1024, "MiB", None


def sparse_figures(loss: Any) -> Iterator[Line]:
    """The elastic net in crfsuite's scale, c1 = 0.5 and c2 = 0.1, and a path from the c1 at which all weights are 0."""
    n = loss.n
    settings: dict[str, Any] = {"lam": 0.2 / n, "tol": 1e-4}
    elastic_net_path(loss, [0.5 / n], **settings | {"iterations": 1})  # compiles
    started = time.perf_counter()
    result = elastic_net(loss, l1=0.5 / n, **settings)
    seconds = time.perf_counter() - started
    yield "elastic net, c1 = 0.5, c2 = 0.1, to a gap of 1e-4", seconds, "s", None
    yield "of its weights not 0", float(len(result.support)), "weights", None
    started = time.perf_counter()
    elastic_net_path(loss, np.geomspace(beta_max(loss), 0.5 / n, 20), **settings)
    yield "path of 20 values of c1 down to it / one fit", (time.perf_counter() - started) / seconds, "ratio", 5.0


def screening_figures(sentences: list[Sentence]) -> Iterator[Line]:
    """What rules remove at each relative gap, c1 = 0.5 and c2 = 0.1, and the strong rule's errors.

    Zhang and Qiu's rule lists outputs: it is measured on 100 sentences' tokens, each an example by itself.
    """
    model, data, loss = ours(sentences)
    _, some, _ = ours(sentences[:100])
    classes = accelerated.MulticlassModel(some.rows.width, model.n_labels)
    tokens = accelerated.LogLoss(classes, classes.pack(some.rows, some.labels))
    l1, lam = 0.5 / loss.n, 0.2 / loss.n
    box = counterpart(Centred(lam, default_kappa(loss, l1), ExponentiatedGradient(lam, 1.0, 0.3, l1=l1)), loss)
    left = elastic_net(loss, l1=l1, lam=lam, tol=1e-6).x != 0
    problem = ElasticNetCRF(loss, alpha=lam / l1, beta=l1)
    yield "of its weights 0", 1 - float(np.mean(left)), "", None
    start = problem.evaluate(np.zeros(model.size))
    yield "rule by counts, weights removed", float(np.mean(CountRule().screen(start))), "", None

    def occurrences(removed: np.ndarray) -> float:  # of attributes of which no weight is left
        used = np.zeros(model.width + model.n_labels, bool)
        used[model.cells[~removed] // model.n_labels] = True
        return 1 - float(np.mean(used[data.rows.indices]))

    for gap in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        run = minimize(loss, CentredGradient(box), rng=0, epochs=1000, tol=gap, every=3)
        v = box.dual.difference(loss, run.state.dual)
        state = problem.evaluate(run.result.x)
        state = state._replace(answer=Answer(0.0, -v), gap=run.result.fun - box.bound(loss, run.state))
        strong = np.abs(v) < 0.5 * l1
        for name, removed in (("gap", L1GapRule().screen(state)), ("strong", strong)):
            yield f"{name} rule at {gap:g}, weights removed", float(np.mean(removed)), "", None
            yield f"{name} rule at {gap:g}, occurrences removed", occurrences(removed), "", None
        yield f"strong rule at {gap:g}, errors", float(np.sum(strong & left)), "weights", None
        beta = 0.5 / tokens.n
        found = accelerated.solve_sparse(tokens, alpha=0.4, beta=beta, tol=gap)
        state = ElasticNetCRF(tokens, alpha=0.4, beta=beta).evaluate(found.x)
        for name, rule in (("gap", L1GapRule()), ("Zhang and Qiu's", HalfSpaceRule(rng=0))):
            yield f"tokens, {name} rule at {gap:g}, weights removed", float(np.mean(rule.screen(state))), "", None


def certified_figures(sentences: list[Sentence], templates: str) -> Iterator[Line]:
    """Sparse objectives less crfsuite's where it stops, in units of the certificate, which bounds them."""
    import pycrfsuite

    from diptych.crfsuite import CRF

    plans = plans_of(templates)
    X, Y = [attributes(treated(x, plans), plans) for x in sentences], [x["label"] for x in sentences]
    for c1, c2 in ((0.5, 0.1), (2.0, 0.001), (1.0, 0.0)):
        trainer = pycrfsuite.Trainer("lbfgs", {"c1": c1, "c2": c2}, verbose=False)
        for x, y in zip(X, Y, strict=True):
            trainer.append(x, y)
        with tempfile.TemporaryDirectory() as folder:
            trainer.train(str(Path(folder) / "model"))
        last = CRF(c1=c1, c2=c2, epsilon=1e-4).fit(X, Y).training_log_.last_iteration
        above = (last["loss"] - trainer.logparser.last_iteration["loss"]) / last["gap"]
        yield f"c1 = {c1}, c2 = {c2}: above crfsuite's, of {len(X)} {templates}", above, "certificates", 1.0


def spanish_figures(archive: str | None) -> Iterator[Line]:
    """As :func:`figures`, on the Spanish names of CoNLL-2002 with the templates "entities"; and SGD's default step."""
    if archive is None:
        print("  spanish: --entities names no conll2002.zip", file=sys.stderr)
        return
    training, some = load_columns(f"{archive}:esp.train"), load_columns(f"{archive}:esp.testb")[:100]
    model, data, loss = ours(training, "entities")
    lam = 2 / data.n
    accelerated.exponentiated_gradient(ours(training[:5], "entities")[2], lam=1.0, epochs=1)  # compiles
    started = time.perf_counter()
    result = accelerated.exponentiated_gradient(loss, lam=lam, tol=1e-4, epochs=100, evaluate_every=3, rng=0)
    seconds = time.perf_counter() - started
    yield "Spanish, exponentiated gradient to a gap of 1e-4", seconds, "s", None
    descent = accelerated.sgd(loss, lam=lam, epochs=20, rng=0)
    yield "Spanish, objective of 20 epochs of sgd / the least", descent.fun / result.fun, "ratio", None
    bound = model.bound(result.x)
    one = microseconds(lambda: [bound([x]) for x in some]) / len(some)
    yield "Spanish, one sentence, bound tagger", one, "us", None
    try:
        peer = Crfsuite(training, templates="entities")
    except ImportError:
        print("  python-crfsuite is not installed: no ratios", file=sys.stderr)
        return
    there = peer.seconds_to(result.fun * data.n)
    yield "Spanish, crfsuite's L-BFGS to the same objective", there, "s", None
    yield "Spanish, exponentiated gradient / crfsuite's L-BFGS", seconds / there, "ratio", 0.06
    theirs = microseconds(lambda: [peer(x) for x in some]) / len(some)
    yield "Spanish, one sentence / crfsuite", one / theirs, "ratio", 1.0
    yield from certified_figures(training[:300], "entities")
