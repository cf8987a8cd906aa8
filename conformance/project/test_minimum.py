"""The oldest versions that are tried, and those of docs/releases.md, are the oldest that are promised."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="an installed package has no .ci")
def test_the_oldest_versions_tried_are_those_promised():
    """Of everything but torch, whose oldest CPU build is far larger than all others, and the tools of developers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for name in ("plots", "estimators", "tests") for each in extras[name])]
    wanted += extras["distributed"]
    promised = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", each).groups() for each in wanted)
    lines = (ROOT / ".ci" / "minimum.txt").read_text().splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    release = {name: [int(x) for x in version.split(".")] for name, version in (promised | tried).items()}
    assert promised.keys() == tried.keys()
    for name, version in promised.items():
        bound = [int(x) for x in version.split(".")]
        assert release[name][: len(bound)] == bound and not any(release[name][len(bound) :]), name


@pytest.mark.skipif(not (ROOT / "docs").exists(), reason="an installed package has no pages")
def test_the_page_has_the_oldest_versions():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    promised = [f"Python {project['requires-python']}", *project["dependencies"]]
    promised += [extras[name][0] for name in ("plots", "estimators", "distributed", "torch")]
    page = (ROOT / "docs" / "releases.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+)(?: \(`\w+`\))? \| ([\d.]+) \|$", page, re.MULTILINE)
    assert [f"{name}>={version}" for name, version in rows] == [each.replace(" ", "") for each in promised]
