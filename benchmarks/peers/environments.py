"""One virtual environment for each group of peers that agree on versions."""

import json
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parent / ".venvs"
REQUIREMENTS = {
    # The interpreter that runs the comparison: our library, scikit-learn, pymanopt.
    "mdaml": None,
    # Released in 2023: every fit fails with scikit-learn 1.8 and newer.
    "metric-learn": ("metric-learn==0.7.0", "scikit-learn==1.7.2"),
    "mlpack": ("mlpack==4.8.0",),
    "torch": ("torch==2.13.0", "pytorch-metric-learning==2.9.0"),
}


class NotInstalledError(RuntimeError):
    """An environment could not be set up; says why."""


def interpreter(environment):
    """The Python of an environment, set up if need be."""
    wanted = REQUIREMENTS[environment]
    if wanted is None:
        return sys.executable
    folder = HOME / environment
    stamp, python = folder / "installed.txt", folder / "bin" / "python"
    if not (stamp.exists() and stamp.read_text().split() == list(wanted)):
        print(f"setting up {environment}: {' '.join(wanted)}", flush=True)
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        run([str(python), "-m", "pip", "install", "--quiet", *wanted])
        stamp.write_text(" ".join(wanted))
    return str(python)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalledError((errors or done.stderr.splitlines() or ["no message"])[-1][:300])


def versions(python):
    """What is installed in an environment, as ``{name: version}``."""
    code = (
        "import json, importlib.metadata as m; "
        "print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"
    )
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)
