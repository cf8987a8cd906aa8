"""Options with odd values, files with nothing to score, images that are none: one clear line each."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reference as r
from conformance.application.test_app import data_file
from conformance.damage import spoil
from conformance.specimens.pages import entries
from conformance.specimens.requests import prepare
from diptych.commands.main import main
from diptych.files import LocalizationImage, save_localization

__all__ = ["data_file"]  # a fixture
ODD = ("", "--", "nan", "inf", "-inf", "1e400", "-1", "x", "9" * 400, "9" * 5000)
NUMBERS = ("--lam", "--mu", "--tol", "--step-size", "--tau", "--C", "--beta", "--alpha", "--kappa", "--sigma")
COUNTS = ("--k", "--rng", "--epochs", "--fold", "--limit", "--path", "--most-bytes")


@pytest.mark.parametrize("option", [*NUMBERS, *COUNTS])
def test_odd_values_are_one_line_and_status_2(capsys, option):
    for value in ODD:
        with pytest.raises(SystemExit) as stop:
            main(["train", "letters", f"{option}={value}"])
        err = capsys.readouterr().err
        assert stop.value.code == 2 and len(err.splitlines()) == 1 and f"argument {option}: expected" in err
        assert len(err) < 300


def test_the_largest_numbers(data_file, capsys, reference_cli):
    """Counts have 31 bits, seeds and bytes 63, degrees 31."""
    words = ["train", str(data_file), "--epochs", "1"]
    for option, least, most in (("--limit", 1, 2**31 - 1), ("--rng", 0, 2**63 - 1), ("--most-bytes", 0, 2**63 - 1)):
        assert reference_cli.run(*words, option, most)[0] == 0
        with pytest.raises(SystemExit):
            main([*words, option, str(most + 1)])
        message = f"argument {option}: expected an integer >= {least} and <= {most}, got {most + 1}"
        assert message in capsys.readouterr().err
    assert r.kernels.Polynomial(2**31 - 1, 0.0)(np.eye(2), np.eye(2))[0, 0] == 1
    with pytest.raises(ValueError, match="degree: expected at most 2147483647, got 2147483648"):
        r.kernels.Polynomial(2**31)


# nothing to score ----------------------------------------------------------------------------------------------------


def test_a_class_without_test_images_has_no_scores(tmp_path, reference_cli):
    """Neither nan nor an error: the other classes may have some."""
    train, test = tmp_path / "train.boxes", tmp_path / "test.boxes"
    image = LocalizationImage([[0, 0, 2, 2]], np.ones((1, 1, 1, 1)), (4, 4), [0, 0, 2, 2], 0)
    save_localization(train, [image], ["a", "b"])
    save_localization(test, [image._replace(label=1)], ["a", "b"])
    status, out, err = reference_cli.run("localize", "train", train, "--class", "a", "--test", test, "--json")
    assert status == 0, err
    assert json.loads(out)["classes"][0]["test"] is None
    assert "nan" not in reference_cli.printed("localize", "train", train, "--class", "a", "--test", test)


@pytest.mark.parametrize(("entry", "message"), entries("wrong_infos.txt"))
def test_a_model_file_that_does_not_say_what_a_command_needs_is_named(
    tmp_path, monkeypatch, entry, message, reference_cli
):
    prepare(r, tmp_path)
    monkeypatch.chdir(tmp_path)
    words, _, change = entry.partition(": ")
    name = next(word for word in words.split() if word.endswith(".npz"))
    spoil(tmp_path / name, change)
    assert message in reference_cli.refused(*words.split())
