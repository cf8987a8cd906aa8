"""The wheel ``diptych-kernels``: a file that ``diptych warm --to`` wrote, as a distribution beside Diptych's.

``python -m diptych.kernels_wheel FILE FOLDER`` writes it for the versions of numba and Python that run it, to be
installed wherever that wheel of numba can be.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import sys
import zipfile
from pathlib import Path

from accelerated.kernel import source_hash
from accelerated.kernel_archive import LEVEL, NAME, PACKAGE, Archive
from reference import __version__
from reference.files import replacing

METADATA = """Metadata-Version: 2.4
Name: diptych-kernels
Version: {version}
Summary: Compiled kernels of Diptych for x86-64 processors with AVX2.
License-Expression: BSD-3-Clause
Requires-Python: =={python}.*
Requires-Dist: diptych=={version}
Requires-Dist: numba=={numba}
Description-Content-Type: text/markdown

The kernels of [Diptych](https://pypi.org/project/diptych/) that its everyday work needs, compiled by numba {numba} for
processors of the level {level}. Diptych finds them by itself; without them it compiles at the first use.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: diptych {version}\nRoot-Is-Purelib: false\n{tags}\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same file from the same kernels


def build(file: str | Path, folder: str | Path) -> Path:
    """Write the wheel into a folder; its path. Raises ValueError for kernels that cannot be used here, and OSError."""
    kernels = Archive(file, source_hash())
    numba = importlib.metadata.distribution("numba")
    lines = [line for line in (numba.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    tags = [line.removeprefix("Tag: ").split("-") for line in lines]
    if not tags:
        raise ValueError("numba: expected one installed from a wheel, whose tags say where the kernels can be")
    name = f"diptych_kernels-{__version__}"
    python, abi, systems = ({tag[i] for tag in tags} for i in range(3))
    tag = "-".join(".".join(sorted(each)) for each in (python, abi, systems))
    minor = "{}.{}".format(*sys.version_info)
    about = {"version": __version__, "numba": numba.version, "python": minor, "level": LEVEL}
    contents = {
        f"{PACKAGE}/__init__.py": f'"""Compiled kernels of Diptych {__version__}."""\n'.encode(),
        f"{PACKAGE}/{NAME}": kernels.path.read_bytes(),
        f"{name}.dist-info/METADATA": METADATA.format(**about).encode(),
        f"{name}.dist-info/WHEEL": WHEEL.format(version=__version__, tags="\n".join(lines)).encode(),
    }
    record = f"{name}.dist-info/RECORD"
    contents[record] = "".join([*map(_recorded, contents, contents.values()), f"{record},,\n"]).encode()
    path = Path(folder) / f"{name}-{tag}.whl"
    with replacing(path) as opened, zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED) as wheel:
        for each, content in contents.items():
            item = zipfile.ZipInfo(each, EPOCH)
            item.external_attr, item.compress_type = 0o100644 << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(item, content)
    return path


def _recorded(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m diptych.kernels_wheel FILE FOLDER")
    print(build(*sys.argv[1:]))
