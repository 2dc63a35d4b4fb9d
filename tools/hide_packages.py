"""Run a command as if packages were not installed, in its child processes too.

    python tools/hide_packages.py pandas,torch -- python -m pytest -q

Names are those of ``import``. What cannot be installed without a hidden package is hidden as well:
without pillow there is no matplotlib. ``all`` hides every package of tests/suite/needs.toml,
``each`` hides one after the other and says which runs failed.
"""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads((ROOT / "tests" / "suite" / "needs.toml").read_text(encoding="utf-8"))
# The suite itself uses these.
KEPT = {"pytest", "hypothesis", "mdaml"}


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def hide(names):
    """Return the environment in which packages, and all that require them, are hidden."""
    homes = packages_distributions()
    hidden = {normal(home) for name in names for home in homes.get(name, [])}
    required = {
        normal(d.name): {
            normal(re.match(r"[\w.-]+", line)[0])
            for line in d.requires or []
            if not re.search(r"\bextra\s*==", line)
        }
        for d in distributions()
    }
    while more := {d for d, wanted in required.items() if wanted & hidden} - hidden - KEPT:
        hidden |= more
    modules = {name for name, where in homes.items() if {normal(d) for d in where} <= hidden}
    path = [str(ROOT / "tools" / "hidden"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {
        "MDAML_HIDDEN_MODULES": ",".join(sorted(modules | set(names))),
        "MDAML_HIDDEN_DISTRIBUTIONS": ",".join(sorted(hidden)),
        "PYTHONPATH": os.pathsep.join(path),
    }


def run(names, command):
    print("Hidden:", *names, flush=True)
    return subprocess.run(command, env=hide(names), check=False).returncode


def main():
    wanted, dashes, *command = sys.argv[1:]
    if dashes != "--":
        raise SystemExit(__doc__)
    every = [*TABLE["installed"], *TABLE["packages"]]
    if wanted != "each":
        raise SystemExit(run(every if wanted == "all" else wanted.split(","), command))
    present = [name for name in every if name in packages_distributions()]
    failed = [name for name in present if run([name], command)]
    print("Failed without:", *failed or ["none"])
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
