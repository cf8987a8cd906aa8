"""The oldest versions that are tried are the oldest that are promised."""

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
