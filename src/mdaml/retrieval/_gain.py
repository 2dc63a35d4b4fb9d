"""The gain of an adapter on held-out queries, in words."""

from collections.abc import Mapping
from typing import Any

from mdaml._validation import warn


def describe_gain(held_out: Mapping[str, Any]) -> str:
    """Return the score before and after with the interval of the change; empty if not known."""
    if not held_out.get("strengths") or "gain" not in held_out:  # saved by an older version
        return ""
    base, gain, (low, high) = held_out["base"], held_out["gain"], held_out["interval"]
    return (
        f"{held_out.get('measure', 'nDCG@10')} {base:.4f} before, {base + gain:.4f} after, change "
        f"{gain:+.4f} (95 % interval {low:+.4f} to {high:+.4f})"
    )


def summarise(
    strength: float, improved: bool, held_out: Mapping[str, Any], *, has_map: bool
) -> str:
    """Return what was learned and what it gained, in one or two lines.

    ``has_map`` says whether queries are mapped, be it by what earlier parts of a log have taught.
    """
    outcome = f"Map of queries, strength {strength:g}."
    if not improved:
        outcome = "The last map is kept." if has_map else "No change of the queries."
    if not held_out:
        return f"{outcome}\nNot tested on held-out queries: anchor was given as a number."
    gain = describe_gain(held_out)
    if not gain:
        return f"{outcome}\nNot tested: too few different queries to hold some out."
    bias = f" Position bias: {held_out['bias']}." if held_out.get("bias") else ""
    if bias and improved:
        bias = f" Clicks confirm its direction (p = {held_out['p_value']:.4f}).{bias}"
    return f"{outcome}\n{held_out['n_queries']} different held-out queries: {gain}.{bias}"


def warn_unimproved(held_out: Mapping[str, Any], kept: str) -> None:
    """Say that nothing was learned, why that may be, and what to try; ``kept`` is what stays."""
    n_queries, is_log = held_out["n_queries"], bool(held_out.get("bias"))
    gained = describe_gain(held_out)
    if not held_out["strengths"]:
        found = "a clicked document beside one that was not" if is_log else "relevant documents"
        warn(
            f"QueryAdapter returns {kept}: only {n_queries} different queries have {found}, too "
            "few to hold some out. Collect more, or set anchor=0.1 to learn without a test."
        )
    elif is_log:
        warn(
            f"QueryAdapter returns {kept}: on {n_queries} different held-out queries no map was "
            f"better by more than chance ({gained}, p = {held_out['p_value']:.2f}). "
            "Likely causes: too few different queries with clicks, clicks that follow the position "
            "or are random, queries and documents of different encoders, or vectors that rank well "
            "already. A log says nothing about documents that were not shown. Collect more "
            "queries, or show two neighbours of a list in random order on some visits. Pass "
            "propensities= if the position bias is known, or judged pairs as relevant=; anchor=0.1 "
            "learns without this test."
        )
    else:
        warn(
            f"QueryAdapter returns {kept}: on {n_queries} different held-out queries no map was "
            f"better by more than chance ({gained}, p = {held_out['p_value']:.2f}). "
            "Likely causes: too few different queries, wrong or random pairs, queries and "
            "documents of different encoders, or vectors that rank well already. Check some pairs "
            "by hand and collect pairs of more different queries; anchor=0.1 learns without this "
            "test."
        )
