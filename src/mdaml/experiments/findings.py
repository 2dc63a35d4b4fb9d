"""What the results show, as plain values; ``template.html.j2`` has the sentences."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from mdaml.experiments.ranking import Ranking, compare_with_ours, mean_ranks, rank_methods
from mdaml.experiments.results import (
    CONVERGENCE,
    IMAGES,
    OURS,
    PARAMETERS,
    PUBLISHED_GRID,
    RIVALS,
    SETTINGS,
    UCI,
    VARIANTS,
    Results,
    is_variant,
    read_published,
)


def find_all(results: Results) -> dict[str, Any]:
    """Return the results with everything that the tables and the page say about them."""
    ranking = rank_methods(results)
    trials = [trial for some in results.trials.values() for trial in some.values()]
    dates = sorted(str(trial["time"])[:10] for trial in trials if trial.get("time"))
    return {
        "results": results,
        "ranking": ranking,
        "comparisons": compare_with_ours(results),
        "places": _places(ranking),
        "mean_accuracy": float(np.nanmean(results.means(results.datasets, results.methods))),
        "kinds": _ranks_by_kind(results, ranking),
        "standing": _standing(results),
        "against_paper": _against_paper(results),
        "missing": _missing(results),
        "n_fits": len(trials),
        "dates": list(dict.fromkeys((dates[0], dates[-1]))) if dates else [],
        "versions": _versions(results),
    }


def join_words(words: Iterable[str]) -> str:
    """Return ``a, b and c``; names that contain a comma are separated by semicolons."""
    items = list(words)
    if any("," in item for item in items):
        return "; ".join(items)
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1]))) if items else ""


def _places(ranking: Ranking) -> list[dict[str, Any]]:
    """Different mean ranks from the best, with the methods that have them and their place."""
    places: list[dict[str, Any]] = []
    for n_ahead, (method, rank) in enumerate(ranking.ordered):
        if not places or rank > places[-1]["rank"]:
            places.append({"place": n_ahead + 1, "rank": rank, "methods": []})
        places[-1]["methods"].append(method)
    return places


def _ranks_by_kind(results: Results, ranking: Ranking) -> list[dict[str, Any]]:
    """Mean ranks over the UCI sets and over the image sets, if there are both."""
    kinds = []
    for name, known in (("UCI", UCI), ("image", IMAGES)):
        datasets = [dataset for dataset in ranking.datasets if dataset in known]
        if 1 < len(datasets) < len(ranking.datasets):
            ranks = mean_ranks(results.means(datasets, ranking.methods))
            ordered = sorted(zip(ranks, ranking.methods, strict=True))
            kinds.append({"name": name, "n_sets": len(datasets), "ranks": ordered})
    return kinds


def _standing(results: Results) -> dict[str, list[Any]]:
    """Find the data sets on which MDaML is best, tied or beaten (by how much, by whom)."""
    best: list[str] = []
    tied: list[str] = []
    beaten: list[tuple[float, str, str]] = []
    for dataset in results.datasets:
        ours = results.mean(dataset, OURS)
        rivals = [m for m in results.compared if m != OURS and (dataset, m) in results.trials]
        if math.isnan(ours) or not rivals:
            continue
        rival = max(rivals, key=lambda method: results.mean(dataset, method))
        gap = round(results.mean(dataset, rival), 2) - round(ours, 2)
        if gap > 0:
            beaten.append((gap, dataset, rival))
        else:
            (best if gap < 0 else tied).append(dataset)
    return {"best": best, "tied": tied, "beaten": sorted(beaten, reverse=True)}


def _against_paper(results: Results) -> list[dict[str, Any]]:
    """Differences from the published accuracies of MDaML, of a variant, and of all others."""
    published = read_published()["accuracy"]
    found = []
    for name, methods in ((OURS, (OURS,)), (PUBLISHED_GRID, (PUBLISHED_GRID,)), ("", RIVALS)):
        differences = []
        for dataset, method in results.trials:
            key = dataset, OURS if is_variant(method) else method
            if method in methods and key in published:
                difference = round(results.mean(dataset, method) - published[key][0], 2)
                differences.append((difference, dataset, method))
        if differences:
            values = [difference[0] for difference in differences]
            counts = {"n": len(values), "n_above": sum(value > 0 for value in values)}
            ends = {"lowest": min(differences), "highest": max(differences)}
            found.append({"method": name, "median": float(np.median(values))} | counts | ends)
    return found


def _missing(results: Results) -> dict[str, list[Any]]:
    """Parts of the experiments that have no records, or too few."""
    most = results.trial_counts[-1]
    n_trials = {key: len(trials) for key, trials in results.trials.items()}
    short = {
        method: [
            (dataset, n_trials[dataset, method], most)
            for dataset in results.datasets
            if 0 < n_trials.get((dataset, method), 0) < most
        ]
        for method in results.methods
    }
    absent = {
        method: [dataset for dataset in results.datasets if (dataset, method) not in n_trials]
        for method in results.methods
    }
    lines = [(parameter, setting) for parameter in PARAMETERS for setting in SETTINGS]
    return {
        "datasets": [name for name in (*UCI, *IMAGES) if name not in results.datasets],
        "methods": [name for name in (OURS, *VARIANTS, *RIVALS) if name not in results.methods],
        "cells": [(method, absent[method], short[method]) for method in results.methods],
        "curves": [name for name in CONVERGENCE if name not in results.convergence],
        "lines": [line for line in lines if line not in results.sensitivity],
    }


def _versions(results: Results) -> dict[str, list[str]]:
    """Versions of the packages that the trials ran with; all of them if they differ."""
    found: dict[str, dict[str, None]] = {}
    for trials in results.trials.values():
        for trial in trials.values():
            for name, version in (trial.get("versions") or {}).items():
                found.setdefault(name, {})[str(version)] = None
    return {name: list(versions) for name, versions in found.items()}
