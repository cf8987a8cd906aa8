"""A folder of the user's with the name of a package is not run in the package's place unseen."""

from __future__ import annotations

import pytest

import reference
from conformance.application.processes import ROOT, finished


def python(folder, *words):
    """Status, output and lines of errors."""
    status, out, err = finished(folder, *words)
    return status, out, err.splitlines()


def foreign(folder, name):
    """A package, or a module, that leaves a file where it is run; its version is ours."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"open({str(folder / 'ran')!r}, 'w')\n__version__ = {reference.__version__!r}\n")
    return path


@pytest.mark.parametrize("name", ["reference/__init__.py", "reference.py", "accelerated/__init__.py"])
def test_a_folder_of_that_name_is_named_and_not_run(tmp_path, name):
    path = foreign(tmp_path, name)
    package = path.stem if path.stem != "__init__" else path.parent.name
    for command, ours in (("diptych", "diptych"), ("diptych.experiments", "diptych"), ("conformance", "conformance")):
        status, out, err = python(tmp_path, "-m", command, "--version")
        assert (status, out, len(err)) == (2, "", 1)
        assert str(path) in err[0] and f"{ROOT / ours} belongs to {ROOT / package}," in err[0]
    status, _, err = python(tmp_path, "-c", "import diptych")
    assert (
        status == 1 and err[-1].startswith("ImportError: ") and str(path) in err[-1] and str(ROOT / package) in err[-1]
    )
    assert not (tmp_path / "ran").exists()


def test_what_is_already_imported_is_named(tmp_path):
    path = foreign(tmp_path, "reference/__init__.py")
    status, _, err = python(tmp_path, "-c", "import reference, diptych")
    assert status == 1 and err[-1].startswith("ImportError: ") and str(path) in err[-1]


def test_the_suite_names_a_foreign_application(tmp_path):
    path = foreign(tmp_path, "diptych/__init__.py")
    status, out, err = python(tmp_path, "-m", "conformance", "--version")
    assert (status, out, len(err)) == (2, "", 1) and str(path) in err[0]
    assert not (tmp_path / "ran").exists()


@pytest.mark.beyond("starts processes")
def test_the_script_does_not_look_where_it_is_started(tmp_path):
    foreign(tmp_path, "reference/__init__.py")
    foreign(tmp_path, "conformance.py")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "diptych").write_text("from diptych.commands.main import main\nraise SystemExit(main())\n")
    expected = (0, f"diptych {reference.__version__}\n", [])
    assert python(tmp_path, tmp_path / "bin" / "diptych", "--version") == expected
    (tmp_path / "reference" / "__init__.py").unlink()
    (tmp_path / "reference").rmdir()
    assert python(tmp_path, "-m", "diptych", "--version") == expected
    (tmp_path / "bin" / "suite").write_text("from conformance.__main__ import script\nraise SystemExit(script())\n")
    status, out, _ = python(tmp_path, tmp_path / "bin" / "suite", "--help")
    assert status == 0 and "usage: diptych-conformance" in out
    assert not (tmp_path / "ran").exists()
