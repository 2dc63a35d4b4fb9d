"""Model files, tables and comparisons with bytes changed, cut off or added."""

import re
import warnings
import zipfile

import numpy as np

from fuzz import Broken, check
from mdaml import GMML, Constraints, MDaML, load
from mdaml.io.tables import read_table


def save_models(folder):
    """Write two models to be damaged, once."""
    X = np.random.default_rng(0).normal(size=(20, 3))
    for name, model in (("gmml", GMML()), ("mdaml", MDaML(n_modes=2, random_state=0, max_iter=2))):
        if not (folder / f"{name}.model").exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, np.arange(20) % 2).save(folder / f"{name}.model")


def damage(content, rng):
    """Return bytes with something wrong somewhere."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(max(1, len(data))))
        kind = rng.integers(6)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            data[place:place] = rng.bytes(int(rng.integers(1, 50)))
        elif kind == 3:
            del data[place : place + int(rng.integers(1, 50))]
        elif kind == 4:
            data[place : place + 8] = rng.bytes(8)
        else:
            other = int(rng.integers(max(1, len(data))))
            data[place : place + 20] = data[other : other + 20]
    return bytes(data)


def attack(rng, folder):
    """Load a damaged model: it is refused, or works."""
    save_models(folder)
    path = folder / "damaged.mdaml"
    whole = (folder / f"{rng.choice(['gmml', 'mdaml'])}.model").read_bytes()
    path.write_bytes(damage(whole, rng) if rng.random() < 0.6 else _forge(path, whole, rng))
    try:
        model = load(path)
    except ValueError:
        return "refused"
    except Exception as error:
        raise Broken(f"load: {type(error).__name__}: {error}") from error
    mapped = model.transform(np.ones((1, model.n_features_in_)))
    check(np.all(np.isfinite(mapped)), "a damaged model was loaded that is not finite")
    return "loaded"


def _forge(path, whole, rng):
    """Return a model whose document was changed, in an archive without a fault."""
    path.write_bytes(whole)
    with zipfile.ZipFile(path) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    name = str(rng.choice(list(found)))
    found[name] = damage(found[name], rng)
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in found.items():
            archive.writestr(entry, content)
    return path.read_bytes()


def write_tables(folder):
    """Write tables and comparisons of every format to be damaged, once."""
    if (folder / "said.npz").exists():
        return
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 3)), columns=["u", "v", "w"])
    rows = np.array([rng.choice(30, 3, replace=False) for _ in range(40)])
    supervision = pd.DataFrame(rows, columns=["a", "b", "c"])
    for name, table in (("table", frame), ("said", supervision)):
        table.to_csv(folder / f"{name}.csv", index=False)
        table.to_csv(folder / f"{name}.csv.gz", index=False)
        table.to_excel(folder / f"{name}.xlsx", index=False)
        table.to_parquet(folder / f"{name}.parquet", index=False)
        table.to_feather(folder / f"{name}.feather")
    np.save(folder / "table.npy", frame.to_numpy())
    Constraints(triplets=rows, n_points=30).write(folder / "said.npz")


def attack_tables(rng, folder):
    """Read a damaged table or comparisons: they are refused by a sentence that names the file."""
    write_tables(folder)
    source = folder / str(rng.choice(sorted(path.name for path in folder.glob("[ts]a*.*"))))
    suffix = source.name[source.name.index(".") :]
    path = folder / f"victim{suffix}"
    path.write_bytes(damage(source.read_bytes(), rng))
    read = read_table if source.name.startswith("table") else Constraints.read
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(path)
        except (ValueError, OSError) as error:
            message = str(error)
            check(path.name in message, source.name, "no name:", message)
            check("rrno" not in message, source.name, "a code of the system:", message)
            words = re.findall(r"[^\W\d_]{2,}", message.replace(str(path), ""))
            check(len(words) >= 5, source.name, "no sentence:", message)
            return f"{suffix} refused"
        except Exception as error:
            raise Broken(f"{source.name}: {type(error).__name__}: {error}") from error
    return f"{suffix} read"
