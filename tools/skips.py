"""Count what runs of the suite skipped, by reason; a reason that is not allowed fails.

    MDAML_SKIPS=first.json python -m pytest ...
    python tools/skips.py first.json second.json

tests/suite/needs.toml lists the reasons that are allowed, and why. A test that was skipped in one
run and not in another counts as run.
"""

import json
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads((ROOT / "tests" / "suite" / "needs.toml").read_text(encoding="utf-8"))
ALLOWED = {f"needs {name}": why for name, why in {**TABLE["packages"], **TABLE["things"]}.items()}


def main(paths):
    runs = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    counts = [Counter(run.values()) for run in runs]
    reasons = sorted(set().union(*counts))
    width = max(map(len, reasons), default=0)
    print("Skipped in each run, by reason:", ", ".join(Path(path).stem for path in paths))
    for reason in reasons:
        numbers = " ".join(f"{count[reason]:5}" for count in counts)
        print(f"  {reason:{width}} {numbers}  {ALLOWED.get(reason, 'NOT ALLOWED')}")
    new = [reason for reason in reasons if reason not in ALLOWED]
    for run in runs:
        for test, reason in run.items():
            if reason in new:
                print(f"{test} was skipped: {reason}", file=sys.stderr)
    if new:
        raise SystemExit("Install what is missing, or list the reason in tests/suite/needs.toml.")


if __name__ == "__main__":
    main(sys.argv[1:])
