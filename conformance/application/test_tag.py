"""The commands ``tag`` and ``parse``: train, evaluate, predict and show on small files; trees as text."""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from conformance.specimens.requests import FILES
from conformance.tolerances import close
from diptych.chunks import chunk_scores, chunks
from diptych.commands import tag
from diptych.commands.parse import drawn
from diptych.files import load_model
from diptych.files.columns import load_columns, read_columns
from diptych.files.text import _standard_input
from diptych.files.treebank import load_treebank
from reference import Projective
from reference.models import token_templates

SENTENCES = f"{FILES['bank.txt']}\nA DT B-NP\ndog NN I-NP\nsees VBZ B-VP\nthe DT B-NP\nduck NN I-NP\n. . O\n"
SPECIMENS = resources.files("conformance.specimens")
TREES = f"{FILES['bank.dp']}\nA\tDT\t2\ndog\tNN\t3\nsees\tVBZ\t0\nthe\tDT\t5\nduck\tNN\t3\n.\t.\t3\n"


@pytest.fixture
def bank(write):
    """Files of sentences and of trees."""
    write(TREES, "bank.dp")
    return write(SENTENCES, "bank.txt")


def test_standard_input_is_a_file(bank, reference_cli, monkeypatch):
    """``-`` is read once, and the labels are those of the file."""
    reference_cli.printed("tag train bank.txt --quiet --save m.npz")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(bank.read_bytes())))
    _standard_input.cache_clear()
    assert reference_cli.printed("tag predict m.npz -") == reference_cli.printed("tag predict m.npz bank.txt") != ""
    _standard_input.cache_clear()


@pytest.mark.parametrize("name", ["chunks", "entities"])
def test_sets_of_templates_do_without_tags(write, reference_cli, name):
    """Words and labels alone: the set's templates that look at the tag are left out, and this is said."""
    write("EU B-ORG\nrejects O\n\nPeter B-PER\nBlackburn I-PER\n", "names.txt")
    status, _, err = reference_cli.run(f"tag train names.txt --templates {name} --transitions iob2 --save m.npz")
    assert status == 0 and f"templates {name} without tag" in err
    model = load_model("m.npz", "reference")[0]
    kept = [each for each in token_templates.TOKEN_TEMPLATES[name] if "tag" not in each]
    assert model.templates == token_templates.check_templates(kept) and model.transitions == "bio"
    reference_cli.printed("tag evaluate m.npz names.txt")


RULES = 'scheme = "bio"\nforbidden = [["B-VP", "B-VP"]]\nend = ["O", "B-VP"]\n'


def test_rules_of_ones_own(bank, write, reference_cli):
    """They hold in what is predicted, and are saved."""
    write(RULES, "rules.toml")
    reference_cli.printed("tag train bank.txt --transitions rules.toml --epochs 3 --save m.npz")
    assert load_model("m.npz", "reference")[0].transitions["end"] == ["B-VP", "O"]
    write("the DT\nduck NN\nsees VBZ\n\nthe DT\n", "new.txt")
    tagged = json.loads(reference_cli.printed("tag predict m.npz new.txt --json"))["sentences"]
    assert all(each["labels"][-1] in ("O", "B-VP") for each in tagged)
    parts = reference_cli.printed("tag train bank.txt --transitions rules.toml --epochs 3 --partitions 2 --json")
    assert json.loads(parts)["weights"] == load_model("m.npz", "reference")[0].size


def test_the_command_reads_b_lines(write, cli):
    """Trained, saved, shown and used from the file; the labels depend on what B lines alone tell."""
    write("U:%x[0,0]\nB\nB05:%x[-1,0]/%x[0,0]\n", "b.template")
    text = "".join(f"{a} X\n{b} {'P' if a == b else 'Q'}\n\n" for a in "ab" for b in "ab") * 3
    write(text, "pairs.txt")
    command = "tag train pairs.txt --columns word,label --templates b.template --save m.npz --quiet"
    assert "tokens 100.00 %" in cli.printed(command)
    model, w, _ = load_model("m.npz", "reference")
    assert {*model.edge_vocabulary} == {f"B05:{a}/{b}" for a in "ab" for b in "ab"} and model.n_edge_features == 4
    labels = [line.split()[-1] for line in cli.printed("tag predict m.npz pairs.txt --quiet").splitlines() if line]
    assert labels == [line.split()[1] for line in text.splitlines() if line]
    shown = cli.printed("tag show m.npz --top 4")
    edges = np.asarray(model.edge_weights(w))
    e, a, b = np.unravel_index(np.argmax(np.abs(edges)), edges.shape)
    line = f"{edges[e, a, b]:9.4f}  {model.edge_vocabulary[e]}: {model.labels[a]} -> {model.labels[b]}"
    assert line in shown


LONG = pytest.mark.beyond("profiling is slow")
PASSED = [
    "--partitions 2",
    *(pytest.param(how, marks=LONG) for how in ("--l1 0.1", "--c1 0.1 --path 2 --dev bank.txt")),
]


@pytest.mark.parametrize("how", PASSED)
def test_options_pass_through_few_places(bank, reference_cli, how):
    """Call sites at which what ``tag train`` was told is an argument, from its words to its report."""
    places = set()

    def watch(frame, event, argument):
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]  # those of * and ** too
        if event == "call" and any(isinstance(frame.f_locals.get(name), tag.Train) for name in names):
            places.add((frame.f_back.f_code.co_qualname, frame.f_back.f_lineno))

    sys.setprofile(watch)
    try:
        status, _, err = reference_cli.run(f"tag train bank.txt --epochs 30 {how}")
    finally:
        sys.setprofile(None)
    assert status == 0, err
    assert 10 < len(places) <= 30


TAGGERS = ["--loss hinge --optimizer casimir --smoothing top-k --k 3 --epochs 20 --lam 0.01"]
TAGGERS += ["", "--bits 14 --transitions bio --optimizer sgd --epochs 40", "--pairs all --loss hinge --lam 0.01"]
TAGGERS += ["--loss hinge --templates words --columns word,tag,label --least 2"]
TAGGERS += ["--loss hinge --optimizer casimir-svrg-adapt --epochs 30 --lam 0.01"]


@pytest.mark.beyond("a long training through a command or learner")
@pytest.mark.parametrize("how", TAGGERS)
def test_train_evaluate_predict_show(backend, bank, write, cli, how):
    """Scores, the best labellings and probabilities by enumeration; weights as show has them."""
    report = cli.reported(f"tag train bank.txt --test bank.txt --save m.npz --quiet {how}")
    assert report["train"] == report["test"] and report["labels"] == ["B-NP", "B-VP", "I-NP", "O"]
    assert report["job"]["lam"] == (0.01 if "--lam" in how else 2 / 3) and len(report["history"]) >= 1
    assert report["test"]["accuracy"] == {"token": 1.0, "sentence": 1.0} and report["test"]["chunks"]["f1"] == 1.0
    out = cli.printed("tag evaluate m.npz bank.txt")
    assert "tokens 100.00 %" in out and "F1 100.00 (7 found, 7 true)" in out and "  VP" in out

    unlabelled = write("a DT\nduck NN\n\nswim VBP\n")
    model, w, info = load_model("m.npz", backend.module)
    assert info["columns"] == ["word", "tag", "label"]
    command = "tag predict m.npz new.txt --top 3 --probabilities"
    sentences, out = cli.reported(command)["sentences"], cli.printed(command)
    data = model.pack(load_columns(str(unlabelled), ("word", "tag", "label")))
    for i, each in enumerate(sentences):
        scores, n = model.scores(data, np.array([i]), w), len(each["labels"])
        unary, moves = np.asarray(scores.unary)[0], np.asarray(scores.pairwise)
        outputs = [list(y) for y in itertools.product(range(4), repeat=n)]
        totals = np.array([unary[np.arange(n), y].sum() + moves[y[:-1], y[1:]].sum() for y in outputs])
        close([one["score"] for one in each["best"]], np.sort(totals)[::-1][:3])
        assert each["best"][0]["labels"] == each["labels"]
        for one in each["best"]:
            close(one["score"], totals[outputs.index([model.labels.index(label) for label in one["labels"]])])
        shares = np.exp(totals) / np.exp(totals).sum()
        for t, (label, p) in enumerate(zip(each["labels"], each["probabilities"], strict=True)):
            close(p, shares[[y[t] == model.labels.index(label) for y in outputs]].sum())
    comments = [line for line in out.splitlines() if line.startswith("#")]
    best = [f"{one['score']:.6g}: {' '.join(one['labels'])}" for each in sentences for one in each["best"]]
    assert comments == [f"# labels = {each}" for each in best] and len(best) == 6
    again = read_columns("out", out.encode(), ("word", "tag", "found", "p"), comment="# ")
    assert [s["word"] for s in again] == [("a", "duck"), ("swim",)]
    assert [list(s["found"]) for s in again] == [each["labels"] for each in sentences]

    report, out = cli.reported("tag show m.npz --top 2"), cli.printed("tag show m.npz")
    weights, transitions = model.split(w)
    assert sorted(report["labels"]) == sorted(model.labels) and len(report["transitions"]) == len(model.label_pairs)
    for k, label in enumerate(model.labels):
        sizes = np.sort(np.abs(weights[:, k][weights[:, k] != 0]))[::-1]
        close([abs(x) for _, x in report["labels"][label]], sizes[:2])
        for name, x in report["labels"][label]:
            close(weights[int(name[4:]) if model.vocabulary is None else model.vocabulary.index(name), k], x)
    for a, b, x in report["transitions"]:
        close(transitions[model.labels.index(a), model.labels.index(b)], x)
    assert "transitions" in out and " B-NP -> I-NP" in out


def test_mistakes_are_counted(bank, write, reference_cli):
    """Against labels that are compared one by one; the sum of all confusions is what ``evaluate`` calls wrong."""
    reference_cli.printed("tag train bank.txt --save m.npz")
    none = reference_cli.reported("tag errors m.npz bank.txt --plot none.png")
    assert none["wrong"] == 0 == len(none["confusions"]) == len(none["worst"]) and none["tokens"] == 12
    other = write(SENTENCES.replace("B-VP", "O").replace("duck NN I-NP", "duck NN B-NP"), "other.txt")
    found = reference_cli.reported("tag errors m.npz other.txt --top 1 --plot errors.png")
    sentences = reference_cli.reported("tag predict m.npz other.txt")["sentences"]
    truth = [label for each in sentences for label in each["columns"]["label"]]
    words = [word for each in sentences for word in each["columns"]["word"]]
    guess = [label for each in sentences for label in each["labels"]]
    wrong = [(word, a, b) for word, a, b in zip(words, truth, guess, strict=True) if a != b]
    assert wrong and found["wrong"] == len(wrong) and found["tokens"] == len(truth)
    share = reference_cli.reported("tag evaluate m.npz other.txt")["accuracy"]["token"]
    assert share == (found["tokens"] - found["wrong"]) / found["tokens"]
    for each in found["confusions"]:
        assert each["count"] == sum((a, b) == (each["true"], each["predicted"]) for _, a, b in wrong)
    assert sum(each["count"] for each in found["confusions"]) == len(wrong)
    for each in found["words"]:
        assert each["wrong"] == sum(word == each["word"] for word, *_ in wrong) == sum(x["count"] for x in each["as"])
        assert each["of"] == words.count(each["word"])
    lines = other.read_text().splitlines()
    for each in found["worst"]:
        assert lines[each["line"] - 1].split()[0] == each["words"][0]
        assert each["wrong"] == sum(a != b for a, b in zip(each["true"], each["predicted"], strict=True))
    assert Path("errors.png").read_bytes().startswith(b"\x89PNG")
    printed = reference_cli.printed("tag errors m.npz other.txt --top 1").splitlines()
    assert printed[0].startswith(f"{len(wrong)} of {len(truth)} tokens wrong")


def test_formats_of_predictions(bank, reference_cli):
    """Lines of JSON are the sentences of ``--json``; labels of another scheme mark the same chunks."""
    reference_cli.printed("tag train bank.txt --save m.npz")
    sentences = reference_cli.reported("tag predict m.npz bank.txt --top 2 --probabilities")["sentences"]
    lines = reference_cli.printed("tag predict m.npz bank.txt --top 2 --probabilities --format jsonl").splitlines()
    assert [json.loads(line) for line in lines] == sentences
    for scheme in ("bilou", "IOB1"):
        others = reference_cli.reported(f"tag predict m.npz bank.txt --top 2 --format {scheme}")["sentences"]
        for each, other in zip(sentences, others, strict=True):
            pairs = [(each["labels"], other["labels"])]
            pairs += [(a["labels"], b["labels"]) for a, b in zip(each["best"], other["best"], strict=True)]
            assert all(chunks(a) == chunks(b, scheme.lower()) for a, b in pairs)


@pytest.mark.beyond("starts processes")
def test_several_processes_tag_alike(bank, reference_cli):
    reference_cli.printed("tag train bank.txt --save m.npz")
    command = "tag predict m.npz bank.txt --top 2 --probabilities"
    assert reference_cli.printed(f"{command} --workers 2") == reference_cli.printed(command)


def test_predictions_are_what_the_scorer_reads(bank, cli):
    """Columns, then the label found: the last two columns give the chunk scores of evaluate."""
    cli.printed("tag train bank.txt --save m.npz --quiet")
    bank.write_text(SENTENCES.replace("dog NN I-NP", "dog NN B-NP").replace(". . O", ". . B-NP", 1))
    again = read_columns("out", cli.printed("tag predict m.npz bank.txt").encode(), ("word", "tag", "label", "found"))
    expected = chunk_scores([s["label"] for s in again], [s["found"] for s in again])
    chunks = cli.reported("tag evaluate m.npz bank.txt")["chunks"]
    assert 0 < chunks["f1"] < 1
    assert all(chunks[name] == getattr(expected, name) for name in ("correct", "found", "expected", "f1"))


def test_templates_of_a_file_and_labels_that_are_no_chunks(write, cli):
    write('templates = ["bias", "form", "form.suffix1"]\n', "t.toml", "utf-8-sig")
    write("# x\na D\ndog N\n\nruns V\n", "tags.txt")
    command = "tag train tags.txt --comment # --test tags.txt --columns form,label --templates t.toml --quiet"
    assert cli.reported(command)["test"] == {"accuracy": {"token": 1.0, "sentence": 1.0}, "chunks": None}
    assert "test  tokens 100.00 %, sentences 100.00 %\n" in cli.printed(command)


TWO = "The D\nduck N\nswims V\n\nA D\ndog N\nsees V\nthe D\nduck N\n"
CONLLU, NOTED = (SPECIMENS.joinpath(f"{name}.conllu").read_text(encoding="utf-8") for name in ("words", "noted"))
FORMS = {  # what is said of the columns, the content, and the templates
    "2 sentences, columns word, label (": (TWO, "words"),
    "3 sentences, columns word, tag, label (": (SENTENCES, "chunks"),
    "columns word, tag, chunk, label (": ("a D x O\nb N y B-X\n", "chunks"),
    "one sentence (an empty line ends a sentence), CoNLL-U, label = UPOS (": (CONLLU, "words"),
}


@pytest.mark.parametrize("said", FORMS)
def test_files_are_read_without_options(write, reference_cli, said):
    """What was inferred is said, and kept: files are read in the same way later."""
    content, templates = FORMS[said]
    write(content, "a.txt")
    status, out, err = reference_cli.run("tag train a.txt --test a.txt --save m.npz")
    assert status == 0 and out.count("tokens 100.00 %") == 2
    (line,) = err.splitlines()
    assert line.startswith("a.txt: ") and said in line and line.endswith(f"templates {templates} (--templates)")
    columns = re.search(r"columns ([a-z, ]+) \(", said)
    assert not columns or load_model("m.npz", "reference")[2]["columns"] == columns[1].split(", ")
    assert "100.00 %" in reference_cli.printed("tag evaluate m.npz a.txt")
    status, _, err = reference_cli.run("tag train a.txt --quiet")
    assert status == 0 and "sentences" not in err


@pytest.mark.parametrize("columns", ["", "--columns id,word,lemma,upos,label,feats,head,deprel,deps,misc"])
def test_conllu_is_tagged_in_place(write, cli, columns):
    """All but the labels of words stays, and the other commands read it: evaluate finds each label right."""
    write(CONLLU, "a.conllu"), write(NOTED, "new.conllu")
    cli.printed(f"tag train a.conllu {columns} --save m.npz --quiet")
    command = "tag predict m.npz new.conllu"
    sentences = cli.reported(command)["sentences"]
    labels = iter(label for each in sentences for label in each["labels"])
    expected = [line.split("\t") for line in NOTED.splitlines()]
    for cells in expected:
        if cells[0].isdecimal():
            cells[4 if columns else 3] = next(labels)
    text = "".join("\t".join(cells) + "\n" for cells in expected)
    assert next(labels, None) is None and text != NOTED and cli.printed(command) == text
    assert cli.printed(f"{command} --out out.conllu") == "" and Path("out.conllu").read_text(encoding="utf-8") == text
    assert "tokens 100.00 %, sentences 100.00 %" in cli.printed("tag evaluate m.npz out.conllu")
    assert cli.printed(f"{command} --limit 1") == text.partition("\n\n")[0] + "\n\n"
    noted = cli.printed(f"{command} --top 2 --probabilities").splitlines()
    assert noted[:2] == text.splitlines()[:2] and noted[2].endswith(f": {' '.join(sentences[0]['labels'])}")
    added = [line for line in noted if line.startswith(("# labels = ", "# probabilities = "))]
    assert len(added) == 6 and [line for line in noted if line not in added] == text.splitlines()


def test_tagging_a_sentence_a_line(write, cli):
    """The same labels as from columns."""
    write(TWO, "two.txt")
    cli.printed("tag train two.txt --save m.npz --quiet")
    write("the dog swims\nduck\n")
    by_line, best = (cli.printed(f"tag predict m.npz new.txt --tokens {more}") for more in ("", "--top 1"))
    write("the\ndog\nswims\n\nduck\n")
    assert by_line == cli.printed("tag predict m.npz new.txt") + "\n" != "\n"
    assert best == cli.printed("tag predict m.npz new.txt --top 1") + "\n" and best.count("# labels = ") == 2
    assert [line.split(" ")[0] for line in by_line.splitlines()] == ["the", "dog", "swims", "", "duck", ""]
    write("duck _\nswims _\n")  # a label that is not known
    cli.printed("tag predict m.npz new.txt")


@pytest.mark.beyond("long runs")
@pytest.mark.parametrize("how", ["", "--learner sparse-crf --path 3 --held-out 0.4"])
def test_attributes_are_looked_up_once(bank, cli, monkeypatch, how):
    """Once for the sentences to train on, which are tagged too, and once for those to test on."""
    seen, whole = [], token_templates._Window
    monkeypatch.setattr(token_templates, "_Window", lambda X, offsets: seen.append(len(X)) or whole(X, offsets))
    cli.printed(f"tag train bank.txt --test bank.txt --quiet {how}")
    assert seen == [3, 3]


def test_trees_as_text():
    lines = drawn(("a", "b", "c", "d"), ("A", "B", "C", "D"), np.array([2, 0, 1, 2]))
    assert lines == ["└─ b (B, 2)", "   ├─ a (A, 1)", "   │  └─ c (C, 3)", "   └─ d (D, 4)"]
    assert drawn((), (), np.zeros(0, np.int64)) == []


TRAININGS = ["--vocabulary 1 --many-roots", "--epochs 30 --step-size 0.1", "--optimizer lbfgs --epochs 20"]


@pytest.mark.parametrize("how", ["", TRAININGS[0], *(f"--loss crf {each}" for each in TRAININGS[1:])])
def test_train_evaluate_predict(backend, bank, write, cli, how):
    """What heads there are makes no difference to predictions, and the scores of trees are sums over their arcs."""
    report = cli.reported(f"parse train bank.dp --test bank.dp --save m.npz --bits 12 --lam 0.01 --quiet {how}")
    assert report["train"] == report["test"] == {"uas": 1.0, "uas_without_punctuation": 1.0}
    assert "right heads 100.00 %" in cli.printed("parse evaluate m.npz bank.dp")
    options = "--top 2 --probabilities --draw"
    out = cli.printed(f"parse predict m.npz bank.dp {options}")
    again = load_treebank(str(write(out, "out.conllu")))
    for a, b in zip(again, load_treebank("bank.dp"), strict=True):
        assert a.words == b.words and a.tags == b.tags and a.heads.tolist() == b.heads.tolist()
        assert sum(c.startswith("# tree = ") for c in a.block.comments) == 2
        assert sum("└─" in c or "├─" in c for c in a.block.comments) == len(a.words)
    for name, heads in (("without", ""), ("some", "\t_")):
        write(re.sub(r"\t2$" if heads else r"\t\d$", heads, TREES, flags=re.MULTILINE), name)
        assert cli.printed(f"parse predict m.npz {name} {options}") == out
        assert f"{name}, line 1: " in cli.refused(f"parse evaluate m.npz {name}")
    model, w, _ = load_model("m.npz", backend.module)
    data = model.pack([s.fields() for s in again])
    for i, each in enumerate(cli.reported(f"parse predict m.npz bank.dp {options}")["sentences"]):
        scores = model.scores(data, np.array([i]), w).values
        for tree in each["trees"]:
            close(tree["score"], scores[np.arange(len(scores)), tree["heads"]].sum())
        assert each["trees"][0]["heads"] == each["heads"] and all(0 < p <= 1 for p in each["probabilities"])


PENALTIES = {"": None, "--loss crf --vocabulary 1": None, "--regularizer l2": None}
PENALTIES |= {"--regularizer l21 --lam 1e-4": 20, "--regularizer l21 --lam 1e3": 0}


@pytest.mark.parametrize(("how", "alive"), PENALTIES.items())
def test_templates_are_weighed(backend, bank, cli, how, alive):
    """By the norms of the saved weights, largest first, and their shares; a strong penalty leaves no template."""
    command = f"parse train bank.dp --bits 8 --optimizer online-proximal --save m.npz --quiet {how}"
    report, out = cli.reported(command), cli.printed(command)
    model, w, _ = load_model("m.npz", backend.module)
    assert model.blocks and (model.keys is None) == ("--vocabulary" not in how)
    norms = {template: np.linalg.norm(w[model.groups == t]) for t, template in enumerate(model.templates)}
    found, total, count = report["template_weights"], sum(norms.values()), sum(x > 0 for x in norms.values())
    assert len(found) == len(norms) == 20
    close([e["norm"] for e in found], [norms[tuple(e["template"])] for e in found])
    assert np.all(np.diff([e["norm"] for e in found]) <= 0)
    close([e["beta"] for e in found], np.array([e["norm"] for e in found]) / (total or 1.0))
    assert (alive is None and report["train"]["uas"] > 0.8) or count == alive
    assert cli.reported("parse show m.npz")["template_weights"] == found
    lines, said = cli.printed("parse show m.npz").splitlines(), f"{count} of 20 templates have weights"
    first = next(i for i, line in enumerate(lines) if line.startswith(said))
    assert "ParsingModel" in lines[0] and len(lines[first:]) == 21
    assert said in out and ("parse show lists them" in out) == (count > 0)


def test_parsers_of_projective_trees(cli, write):
    """They are saved as such, and refuse other trees to learn from, or leave them out; all are scored."""
    write("a\tD\t3\nb\tN\t0\nc\tV\t2\n\na\tD\t2\nb\tN\t0\n", "crossed.dp")  # 3 -> 1 and the root's arc to 2
    options = "--projective --save m.npz --bits 8 --quiet"
    assert "crossed.dp, line 2: expected arcs that do not cross" in cli.refused(f"parse train crossed.dp {options}")
    report = cli.reported(f"parse train crossed.dp --test crossed.dp --drop-crossing {options}")
    assert report["dropped"] == 1 and report["test"]["uas"] < 1.0
    best = cli.reported("parse predict m.npz crossed.dp --top 99")["sentences"][0]["trees"]
    assert sorted(tree["heads"] for tree in best) == sorted(map(list, Projective(np.zeros((3, 4)), True).enumerate()))
    assert "--drop-crossing needs --projective" in cli.refused("parse train crossed.dp --drop-crossing --quiet")
