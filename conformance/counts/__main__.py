"""``python -m conformance.counts [record] [--json]``: counted work beside its kept values."""

from __future__ import annotations

import argparse
import json
import sys

from tqdm import tqdm

from conformance.counts import COUNTS, KEPT, compared

parser = argparse.ArgumentParser(
    prog="python -m conformance.counts", description="Print counted work beside its kept values.", allow_abbrev=False
)
parser.add_argument("action", nargs="?", choices=["compare", "record"], default="compare")
parser.add_argument("--json", action="store_true", help="print JSON")
options = parser.parse_args()
found = {name: float(count.measure()) for name, count in tqdm(COUNTS.items(), disable=None, leave=False)}
if options.action == "record":
    KEPT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
rows = compared(found)
if options.json:
    print(json.dumps(rows, indent=2))
else:
    for row in rows:
        differs = "" if row["same"] else "  DIFFERS"
        print(f"{row['count']:<42}{row['value']:>12g} {row['unit']:<18}kept {row['kept']}{differs}")
sys.exit(0 if all(row["same"] for row in rows) else 1)
