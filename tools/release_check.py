"""Build what would be released, look into it, install it and run the tests against it.

``make release-check`` calls this with the interpreter of ``.venv``. The archives stay in ``dist``.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
BUNDLED = [  # the nine sets whose licences let us
    *("autompg", "balance", "dna", "german", "letter", "segment", "sonar", "spambase", "vehicle"),
]
WANTED = [
    *("mdaml/py.typed", "mdaml/experiments/paper.toml", "mdaml/experiments/template.html.j2"),
    *("mdaml/experiments/published.toml", "mdaml/experiments/tables.j2"),
    *(f"mdaml/datasets/data/{name}.csv.gz" for name in BUNDLED),
    "mdaml/datasets/data/banking77.npz",  # sentences, CC BY 4.0
]
LARGEST = 5 * 2**20  # bytes of either archive: more means that something slipped in


def run(*command, cwd=ROOT):
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, cwd=cwd)


def check(holds, complaint):
    if not holds:
        sys.exit(f"release-check: {complaint}")


def build():
    """Return the two archives; the wheel is built from the source archive, as installers do."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    for archive in (sdist, wheel):
        size = archive.stat().st_size
        print(f"{archive.name}: {size / 2**20:.1f} MiB")
        check(size < LARGEST, f"{archive.name} has {size} bytes, more than {LARGEST}.")
    return sdist, wheel


def check_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    missing = sorted(set(WANTED) - set(names))
    check(not missing, f"the wheel lacks {missing}.")
    tops = {name.partition("/")[0] for name in names}
    strange = [top for top in tops if top != "mdaml" and not top.endswith(".dist-info")]
    check(not strange, f"the wheel would install {strange} beside the package.")
    data = [name for name in names if name.startswith("mdaml/datasets/data/")]
    check(set(data) <= set(WANTED), f"data that must not ship: {sorted(set(data) - set(WANTED))}.")


def check_sdist(sdist):
    """All that is in it is under version control: no build products, no data of others."""
    with tarfile.open(sdist) as archive:
        names = [m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()]
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    strange = sorted(set(names) - set(listed.stdout.splitlines()) - {"PKG-INFO"})
    check(not strange, f"files that git does not know: {strange[:10]}.")
    check("tests/conftest.py" in names, "the source archive lacks the tests.")


def test_installed(sdist, wheel, folder):
    """Install the wheel in a new environment; run the tests that the source archive holds."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", f"mdaml[test] @ {wheel.as_uri()}", cwd=folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (home,) = folder.glob("mdaml-*")
    where = "import mdaml; print(mdaml.__file__); assert 'site-packages' in mdaml.__file__"
    run(python, "-c", where, cwd=home)
    # Examples of docstrings by --pyargs: those of the installed modules. `src` is there for the
    # tests that read it, and must not be collected: pytest would put it first on the path.
    settings = tomllib.loads((home / "pyproject.toml").read_text())["tool"]["pytest"]
    paths = [path for path in settings["ini_options"]["testpaths"] if path != "src"]
    # pytest takes the patterns of the settings for files below `home`.
    extras = "stores/torch/*", "io/torch_layers.py", "kernels/triton_*"
    away = [f"--ignore-glob={python.parents[1]}/*/{pattern}" for pattern in extras]
    run(python, "-m", "pytest", "-q", *paths, *away, "--pyargs", "mdaml", cwd=home)


if __name__ == "__main__":
    sdist, wheel = build()
    check_wheel(wheel)
    check_sdist(sdist)
    with tempfile.TemporaryDirectory() as folder:
        test_installed(sdist, wheel, Path(folder).resolve())
    print(f"release-check: {sdist.name} and {wheel.name} are fit to be released.")
