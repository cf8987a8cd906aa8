"""``python -m conformance.ledger [--json]``: print the claims ledger."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from conformance.ledger import ROWS, render

parser = argparse.ArgumentParser(
    prog="python -m conformance.ledger", description="Print the claims ledger as a Markdown page.", allow_abbrev=False
)
parser.add_argument("--json", action="store_true", help="print its rows as JSON instead")
as_json = parser.parse_args().json
print(json.dumps([{"id": row.id, **asdict(row)} for row in ROWS], indent=2) if as_json else render(), end="")
