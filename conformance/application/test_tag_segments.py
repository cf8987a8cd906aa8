"""Commands over structures of their own: segments in ``tag``, projective trees in ``parse``."""

import numpy as np

from reference import Projective


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


def test_the_command_reads_templates_of_segments(write, cli):
    """S lines, and TOML: the type depends on both words of a chunk, which the tokens' own templates cannot tell."""
    text = "".join(f"{a} B-{k}\n{b} I-{k}\n. O\n\n" for a in "xy" for b in "xy" for k in [("NE", "EQ")[a == b]]) * 3
    write(text, "both.txt")
    write("U:%x[0,0]\nS7:%s[0]\nB\n", "s.template")
    write('templates = ["word"]\nsegments = ["%b[0,word]+%e[0,word]"]\n', "s.toml")
    write("U:%x[0,0]\n", "none.template")  # beside the templates of segments that come with the package
    names = {"s.template": "S7:%s[word]=S7:x y", "s.toml": "%b[0,word]+%e[0,word]=y+x", "none.template": ""}
    for file, name in names.items():
        words = f"tag train both.txt --templates {file} --segments 2 --lam 0.001 --quiet --save m.npz"
        assert cli.reported(words)["train"]["accuracy"]["sentence"] == 1.0
        scores = cli.reported("tag evaluate m.npz both.txt")
        assert scores["accuracy"]["sentence"] == 1.0 and scores["chunks"]["f1"] == 1.0
        assert cli.printed("tag errors m.npz both.txt").startswith("0 of 36 tokens wrong")
        shown = {each for each, _ in cli.reported("tag show m.npz")["labels"]["NE"]}
        assert not name or {name, "2 tokens"} <= shown
    (best,) = cli.reported("tag predict m.npz both.txt --limit 1 --top 2 --probabilities")["sentences"]
    assert best["labels"] == ["B-EQ", "I-EQ", "O"] == best["best"][0]["labels"]
    first, second = (each["score"] for each in best["best"])
    assert first > second and best["probabilities"][0] == best["probabilities"][1] > 0.5
