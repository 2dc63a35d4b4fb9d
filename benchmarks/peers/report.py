"""Table, verdict and picture of the comparison."""

from collections import defaultdict
from statistics import mean, median

from learners import METHODS

DEFAULT = "MDaML"
REFERENCE = "Euclidean"  # no peer: learns nothing
RIVAL = "SCML of triplets"
JUDGED_BY = {"labels": ("accuracy",), "triplets": ("accuracy", "satisfied")}


def summarise(records):
    """One row for each kind of supervision, data set and method: medians and means of its splits.

    A method that failed on any split has no figures, but says why.
    """
    cases = defaultdict(list)
    for record in records:
        cases[record["kind"], record["set"], record["method"]].append(record)
    rows = []
    for (kind, name, method), facts in sorted(cases.items(), key=place):
        row = {"kind": kind, "set": name, "method": method, "splits": len(facts)}
        wrong = [fact for fact in facts if fact["status"] != "ok"]
        if wrong:
            first = min(wrong, key=lambda fact: fact["split"])
            rows.append(row | {"status": first["status"], "message": first["message"]})
            continue
        rows.append(
            row
            | {
                "status": "ok",
                "seconds": median(fact["cpu_seconds"] for fact in facts),
                "accuracy": mean(fact["accuracy"] for fact in facts),
                "satisfied": mean(fact["satisfied"] for fact in facts),
                "peak_mb": max(fact["peak_mb"] for fact in facts),
            }
        )
    return rows


def place(item):
    (kind, name, method), _ = item
    return kind, name, list(METHODS).index(method)


def dominating(rows, by):
    """Peers among the rows of one data set that are faster than our default and better.

    With how many times faster, and how much better; without regard to chance, which on a hundred
    held-out samples moves an accuracy by several points.
    """
    own = next((row for row in rows if row["method"] == DEFAULT and row["status"] == "ok"), None)
    return [
        {
            "method": row["method"],
            "times_faster": own["seconds"] / row["seconds"],
            "better_by": row[by] - own[by],
        }
        for row in rows
        if own is not None
        and is_peer(row["method"])
        and row["status"] == "ok"
        and row["seconds"] < own["seconds"]
        and row[by] > own[by]
    ]


def is_peer(method):
    return method != REFERENCE and not METHODS[method].ours


def against_rival(rows):
    """How many times faster than SCML our default is, and by how much better; or why not."""
    by_method = {row["method"]: row for row in rows}
    own, rival = by_method.get(DEFAULT), by_method.get(RIVAL)
    if own is None or rival is None or "seconds" not in own:
        return None
    if "seconds" not in rival:
        return {"rival": rival["message"]}
    return {
        "times_faster": rival["seconds"] / own["seconds"],
        "accuracy": own["accuracy"] - rival["accuracy"],
        "satisfied": own["satisfied"] - rival["satisfied"],
    }


def verdicts(rows):
    """For each kind and set: who is both faster and better, and where we stand against SCML."""
    found = []
    for kind, name in sorted({(row["kind"], row["set"]) for row in rows}):
        here = [row for row in rows if (row["kind"], row["set"]) == (kind, name)]
        verdict = {"kind": kind, "set": name}
        for by in JUDGED_BY[kind]:
            verdict[f"faster_and_better_by_{by}"] = dominating(here, by)
        if kind == "triplets":
            verdict["against_scml"] = against_rival(here)
        found.append(verdict)
    return found


def show(rows):
    """Print table and verdicts; return these."""
    for kind, name in sorted({(row["kind"], row["set"]) for row in rows}):
        print(f"\n{name}, supervised by {kind}")
        print(f"  {'method':22s}{'seconds':>10s}{'3-NN %':>9s}{'triplets %':>12s}{'peak MB':>9s}")
        for row in rows:
            if (row["kind"], row["set"]) == (kind, name):
                print("  " + line(row))
    found = verdicts(rows)
    print("\nIs a peer both faster and better than MDaML()?")
    for verdict in found:
        print(f"  {verdict['set']:9s} {verdict['kind']:9s} {sentence(verdict)}")
    return found


def line(row):
    mark = "*" if METHODS[row["method"]].ours else " "
    head = f"{mark} {row['method']:20s}"
    if row["status"] != "ok":
        return f"{head}  {row['status']}: {row['message']}"
    return (
        f"{head}{row['seconds']:10.4f}{100 * row['accuracy']:9.1f}{100 * row['satisfied']:12.1f}"
        f"{row['peak_mb']:9.1f}"
    )


def sentence(verdict):
    parts = []
    for by, word in (("accuracy", "3-NN"), ("satisfied", "held-out triplets")):
        peers = verdict.get(f"faster_and_better_by_{by}")
        if peers is not None:
            names = [
                f"{peer['method']} ({peer['times_faster']:.1f}x, {100 * peer['better_by']:+.1f})"
                for peer in peers
            ]
            parts.append(f"by {word}: {', '.join(names) or 'none'}")
    scml = verdict.get("against_scml")
    if scml and "times_faster" in scml:
        parts.append(
            f"against SCML: {scml['times_faster']:.0f}x faster, "
            f"3-NN {100 * scml['accuracy']:+.1f}, triplets {100 * scml['satisfied']:+.1f} points"
        )
    elif scml:
        parts.append(f"against SCML: it is {scml['rival']}")
    return "; ".join(parts)


# Colours of Okabe and Ito, which all kinds of colour vision tell apart; ours are filled.
STYLES = {
    "MDaML": ("#D55E00", "*"),
    "MDaMLCV": ("#D55E00", "o"),
    "LocalMDaML": ("#D55E00", "D"),
    "LMNN": ("#0072B2", "o"),
    "GMML": ("#009E73", "o"),
    "KISSME": ("#CC79A7", "o"),
    "literal MDaML": ("#D55E00", "x"),
    "sklearn NCA": ("#56B4E9", "^"),
    "metric-learn NCA": ("#56B4E9", "v"),
    "metric-learn LMNN": ("#0072B2", "s"),
    "mlpack LMNN": ("#0072B2", "D"),
    "metric-learn LFDA": ("#999999", "s"),
    "metric-learn ITML": ("#E69F00", "s"),
    "metric-learn LSML": ("#CC79A7", "s"),
    "LSML of quadruplets": ("#CC79A7", "s"),
    "metric-learn SCML": ("#009E73", "s"),
    "SCML of triplets": ("#009E73", "s"),
    "PML linear layer": ("#000000", "P"),
    "linear ModernNCA": ("#56B4E9", "P"),
    "network": ("#000000", "X"),
}


def draw(rows, path):
    """Seconds against accuracy, a panel for each data set, and write the picture to a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    sets = sorted({row["set"] for row in rows})
    n_columns = min(5, len(sets))
    n_lines = -(-len(sets) // n_columns)
    kinds = [kind for kind in JUDGED_BY if any(row["kind"] == kind for row in rows)]
    figure = plt.figure(figsize=(2.6 * n_columns + 2.4, 2.3 * n_lines * len(kinds) + 0.6))
    figure.set_layout_engine("constrained")
    blocks = figure.subfigures(len(kinds), 1, squeeze=False)[:, 0]
    handles = {}
    for block, kind in zip(blocks, kinds, strict=True):
        block.suptitle(f"Supervised by {kind}", fontsize=10, x=0.01, ha="left")
        panels = block.subplots(n_lines, n_columns, squeeze=False)
        for panel, name in zip(panels.flat, sets, strict=False):
            here = [row for row in rows if (row["kind"], row["set"]) == (kind, name)]
            handles |= draw_panel(panel, here, name)
        for panel in panels.flat[len(sets) :]:
            panel.axis("off")
        block.supxlabel("processor seconds of a fit, one thread", fontsize=8)
        block.supylabel("3-NN accuracy, %", fontsize=8)
    order = [method for method in (*STYLES, REFERENCE) if method in handles]
    figure.legend(
        [handles[method] for method in order],
        order,
        loc="outside right upper",
        frameon=False,
        fontsize=8,
    )
    unfinished = path.with_suffix(".tmp.png")
    figure.savefig(unfinished, dpi=130)
    unfinished.replace(path)
    plt.close(figure)


def draw_panel(panel, rows, name):
    """One data set; returns the marks by method, for the legend."""
    handles = {}
    for row in rows:
        method = row["method"]
        if row["status"] != "ok":
            continue
        if method == REFERENCE:
            handles[method] = panel.axhline(
                100 * row["accuracy"], color="0.6", lw=0.9, ls="--", zorder=0
            )
            continue
        color, marker = STYLES[method]
        face = color if METHODS[method].ours or marker in "x" else "none"
        handles[method] = panel.scatter(
            row["seconds"],
            100 * row["accuracy"],
            s=90 if method == DEFAULT else 28,
            marker=marker,
            facecolors=face,
            edgecolors=None if marker == "x" else color,
            linewidths=1.1,
            zorder=3 if METHODS[method].ours else 2,
        )
    panel.set_xscale("log")
    panel.set_title(name, fontsize=9)
    panel.tick_params(labelsize=7)
    panel.grid(color="0.92", lw=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)
    return handles
