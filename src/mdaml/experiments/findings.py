"""What the results show, as plain values; ``template.html.j2`` has the sentences."""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

import numpy as np
import pandas as pd

from mdaml.experiments.config import IMAGES, OURS, PUBLISHED_GRID, RIVALS, UCI
from mdaml.experiments.ranking import Ranking, compare_with_ours, mean_ranks, rank_methods
from mdaml.experiments.records import Record
from mdaml.experiments.results import Results, read_published


def find_all(results: Results) -> Record:
    """Return the results with everything that the tables and the page say about them."""
    ranking = rank_methods(results)
    dates = sorted(str(time)[:10] for time in results.trials["time"].dropna() if time)
    return {
        "results": results,
        "ranking": ranking,
        "comparisons": compare_with_ours(results),
        "places": _places(ranking),
        "mean_accuracy": float(np.nanmean(results.mean)),
        "kinds": _ranks_by_kind(results, ranking),
        "standing": _standing(results),
        "against_paper": _against_paper(results),
        "n_fits": len(results.trials),
        "dates": list(dict.fromkeys((dates[0], dates[-1]))) if dates else [],
        "versions": _versions(results),
    }


def join_words(words: Iterable[str]) -> str:
    """Return ``a, b and c``; names that contain a comma are separated by semicolons."""
    items = list(words)
    if any("," in item for item in items):
        return "; ".join(items)
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1]))) if items else ""


def _places(ranking: Ranking) -> list[Record]:
    """Different mean ranks from the best, with the methods that have them and their place."""
    places: list[Record] = []
    n_ahead = 0
    for rank, group in groupby(ranking.ordered, itemgetter(1)):
        methods = [method for method, _ in group]
        places.append({"place": n_ahead + 1, "rank": rank, "methods": methods})
        n_ahead += len(methods)
    return places


def _ranks_by_kind(results: Results, ranking: Ranking) -> list[Record]:
    """Mean ranks over the UCI sets and over the image sets, if there are both."""
    kinds = []
    for name, known in (("UCI", UCI), ("image", IMAGES)):
        datasets = [dataset for dataset in ranking.datasets if dataset in known]
        if 1 < len(datasets) < len(ranking.datasets):
            ranks = mean_ranks(results.means(datasets, ranking.methods))
            ordered = sorted(zip(ranks, ranking.methods, strict=True))
            kinds.append({"name": name, "n_sets": len(datasets), "ranks": ordered})
    return kinds


def _standing(results: Results) -> Record:
    """Find the data sets on which MDaML is best, tied or beaten (by how much, by which method)."""
    means = results.mean.reindex(columns=list(results.compared))
    if OURS not in means:
        return {"best": [], "tied": [], "beaten": []}
    rivals = means.drop(columns=OURS)[means[OURS].notna()].dropna(how="all")
    gaps = rivals.max(axis="columns").round(2) - means[OURS].round(2)
    gaps = gaps.dropna()
    beaten = [(gap, name, rivals.loc[name].idxmax()) for name, gap in gaps[gaps > 0].items()]
    return {
        "best": list(gaps.index[gaps < 0]),
        "tied": list(gaps.index[gaps == 0]),
        "beaten": sorted(beaten, reverse=True),
    }


def _against_paper(results: Results) -> list[Record]:
    """Differences from the published accuracies of MDaML, of a variant, and of all others."""
    published = read_published()["mean"]
    found = []
    for name, methods in ((OURS, [OURS]), (PUBLISHED_GRID, [PUBLISHED_GRID]), ("", [*RIVALS])):
        ours = results.mean.reindex(columns=methods)
        theirs = published.rename(columns={"MDaML": name}).reindex_like(ours)
        differences = (ours - theirs).round(2).T.unstack().dropna()
        cells = [(value, *key) for key, value in differences.items()]
        if cells:
            found.append(
                {
                    "method": name,
                    "median": float(differences.median()),
                    "n": len(cells),
                    "n_above": int((differences > 0).sum()),
                    "lowest": min(cells),
                    "highest": max(cells),
                }
            )
    return found


def _versions(results: Results) -> dict[str, list[str]]:
    """Versions of the packages that the trials ran with; all of them if they differ."""
    found = pd.DataFrame(list(results.trials["versions"].dropna())).astype(str)
    return {name: list(dict.fromkeys(found[name].dropna())) for name in found}
