"""A study is one thing: items, features, question, options, introduction; changes are deliberate.

The database holds the fingerprint of the study it belongs to. Whoever starts with something else is
told what differs and what it means for which answers, before anything is changed.
"""

import hashlib
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from mdaml.ask.items import Items
from mdaml.ask.questions import Plan, Row
from mdaml.ask.storage import Storage

OnChanges = Literal["refuse", "accept"]
_MOST_NAMED = 3  # items in a message
_WORDS = {
    "held_out": "the share of held-out questions",
    "repeats": "the share of repeats",
    "catch": "the share of catch questions",
    "limit": "the limit for a person",
    "pick": "the number of items to pick",
    "show": "the number of items shown",
}


class Study(NamedTuple):
    """What a site needs to know of its study."""

    id: str  # names cookies and what browsers keep
    intro: str  # fingerprint of the introduction, empty if there is none


def open_study(
    storage: Storage, items: Items, plan: Plan, intro: str, changes: OnChanges = "refuse"
) -> Study:
    """Return the study of a database, which is this one from now on if nobody has begun another.

    Parameters
    ----------
    storage : Storage
        The database.
    items, plan, intro : Items, Plan, str
        What is asked now.
    changes : {"refuse", "accept"}
        What to do if the database holds answers to something else: raise an error that tells what
        differs, or go on with the answers.
    """
    now = take_fingerprint(items, plan, intro)
    before = json.loads(storage.keep_setting("study", json.dumps(now)))
    study = Study(storage.keep_setting("study id", secrets.token_hex(4)), now["intro"])
    if before == now:
        return study
    answers = storage.answers()
    lines, names, is_new = _compare(
        before, now, [a["items"] for a in answers if a["outcome"] != "skip"]
    )
    # Items with ids may come in another order.
    if lines and changes == "refuse" and (answers or storage.persons()):
        listed = "\n".join(f"- {line}" for line in lines)
        raise ValueError(
            f"{storage.name} holds another study, or this one has changed:\n{listed}\n"
            "Nothing was changed. To go on with these answers, pass --accept-changes. To begin "
            "another study, pass --new-study for a file of its own, --study NAME for this "
            "database, or name another place by --answers."
        )
    with storage.write() as change:
        change.rename_items(names)
        if lines:
            change.forget_learned(models=is_new)
        change.set("study", json.dumps(now))
    return study


def check_name(study: str) -> str:
    """Return the name of a study, which is a part of addresses and of the names of tables."""
    if study and not re.fullmatch("[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?", study):
        raise ValueError(
            "The name of a study must have 1 to 30 of the signs a to z, 0 to 9 and -, none of them "
            f"- at its ends, got {study!r}."
        )
    return study


def find_new_place(place: str | Path) -> Path:
    """Return a file that does not exist yet: the given one, or answers-2.db, answers-3.db, ..."""
    if "://" in str(place):
        raise ValueError(
            "--new-study begins a study in a new file. In PostgreSQL, pass --study NAME: one "
            "database has room for several studies."
        )
    path, n = Path(place), 2
    while path.exists():
        path = Path(place).with_stem(f"{Path(place).stem}-{n}")
        n += 1
    return path


def take_fingerprint(items: Items, plan: Plan, intro: str) -> Row:
    """Return what makes a study, as JSON."""
    X = items.X
    features: list[str] = []
    if X is not None:
        rows = np.ascontiguousarray(X, dtype=np.float64)
        features = [_digest(row.tobytes()) for row in rows]
    return {
        "ids": list(items.ids),
        "shown": [_digest(json.dumps(items.content(row))) for row in range(len(items.ids))],
        "features": features,
        "names": list(items.features),
        "n_features": 0 if X is None else X.shape[1],
        "is_scaled": X is not None and items.is_scaled,
        "plan": asdict(plan) | {"question": plan.words},
        "intro": _digest(intro) if intro.strip() else "",
    }


def _digest(text: str | bytes) -> str:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()[:16]


def _compare(
    before: Row, now: Row, asked: Sequence[Sequence[str]]
) -> tuple[list[str], dict[str, str], bool]:
    """Return how two studies differ; `asked` has the items of all answers.

    Returned are what changed and what it means, new names of items that are told by their rows,
    and whether models fit no longer.
    """

    def count(names: set[str]) -> int:
        return sum(not names.isdisjoint(items) for items in asked)

    lines = _compare_plans(before["plan"], now["plan"], len(asked))
    renamed, told = dict[str, str](), list[str]()
    had_rows, has_rows = _is_numbered(before["ids"]), _is_numbered(now["ids"])
    if had_rows:
        renamed, told = _match_rows(before, now, count)
    if not had_rows or not (has_rows or set(renamed.values()) & set(now["ids"])):
        renamed, told = {}, _compare_items(before, now, count)
    lines += told
    has_features = _compare_features(before, now)
    lines += has_features
    if before["intro"] != now["intro"]:
        lines.append("The introduction differs. Everybody is asked for consent to the new one.")
    return lines, renamed, bool(has_features)


def _compare_plans(before: Row, now: Row, n_answers: int) -> list[str]:
    lines = []
    if (before["form"], before["question"]) != (now["form"], now["question"]):
        lines.append(
            f"The question was “{before['question']}” ({before['form']}), and is now "
            f"“{now['question']}” ({now['form']}). The metric would learn from "
            f"{_count(n_answers)} to the first and from those to the second together."
        )
    for name, word in _WORDS.items():
        if before[name] != now[name]:
            what = f"{word[0].upper()}{word[1:]}"
            lines.append(f"{what} was {before[name]}, and is now {now[name]}. Answers stay valid.")
    return lines


def _compare_items(before: Row, now: Row, count: Callable[[set[str]], int]) -> list[str]:
    """Return how items differ that have ids."""
    old = dict(zip(before["ids"], before["shown"], strict=True))
    new = dict(zip(now["ids"], now["shown"], strict=True))
    lines = []
    gone, added = old.keys() - new.keys(), new.keys() - old.keys()
    other = {name for name in old.keys() & new.keys() if old[name] != new[name]}
    if gone:
        lines.append(
            f"{_tell(gone, 'removed')}. Answers about them ({count(gone)}) stay in the database "
            "and in exports, but nothing is learned from them."
        )
    if gone == old.keys():
        lines.append("No id is left: perhaps ids are in a column of another name (--id).")
    if added:
        lines.append(f"{_tell(added, 'added')}. Answers stay valid.")
    if other:
        lines.append(
            f"{_tell(other, 'changed')}: the same id now shows something else. "
            f"{_count(count(other))} about what was shown before would count for what is shown now."
        )
    return lines


def _match_rows(
    before: Row, now: Row, count: Callable[[set[str]], int]
) -> tuple[dict[str, str], list[str]]:
    """Find rows without ids again by their contents; return their new names, and what changed."""
    key = "shown" if all(len(set(s["shown"])) == len(s["ids"]) for s in (before, now)) else "both"
    old, new = _contents(before, key), _contents(now, key)
    places = dict(zip(new, now["ids"], strict=True))
    names: dict[str, str] = {}
    for row, content in enumerate(old):
        place = places.get(content, f"removed row {row} ({content[:6]})")
        if place != str(row):
            names[str(row)] = place
    gone = {str(row) for row, content in enumerate(old) if content not in places}
    lines = []
    if moved := names.keys() - gone:
        have = "have no ids, and" if _is_numbered(now["ids"]) else "had no ids, and have some now:"
        lines.append(
            f"Items {have} {len(moved)} of {len(old)} have moved to other rows or names. "
            f"Answers about them ({count(set(moved))}) name rows. If you accept, each item is "
            "found by its contents, and its answers stay with it. A column of ids (--id) from the "
            "start avoids this."
        )
    if gone:
        lines.append(
            f"{_tell(gone, 'removed or changed')}. These are row numbers: the items had no ids. "
            f"Answers about them ({count(gone)}) stay in the database and in exports, but nothing "
            "is learned from them."
        )
    n_added = len(set(new) - set(old))
    if n_added:
        lines.append(f"{_items(n_added)} added. Answers stay valid.")
    return names, lines


def _contents(study: Row, key: str) -> list[str]:
    """Return the contents of all items; equal ones are numbered."""
    contents, seen = list(study["shown"]), Counter[str]()
    if key == "both" and study["features"]:
        contents = [a + b for a, b in zip(contents, study["features"], strict=True)]
    for row, content in enumerate(contents):
        seen[content] += 1
        if seen[content] > 1:
            contents[row] = f"{content} {seen[content]}"
    return contents


def _compare_features(before: Row, now: Row) -> list[str]:
    again = "The metric is learned anew from all answers."
    if before["n_features"] != now["n_features"] or before["names"] != now["names"]:
        added = [name for name in now["names"] if name not in before["names"]]
        gone = [name for name in before["names"] if name not in now["names"]]
        parts = [f"{sign} {', '.join(n[:5])}" for sign, n in (("+", added), ("−", gone)) if n]
        if not parts and before["n_features"] == now["n_features"]:
            return [f"The features are in another order. {again}"]
        which = f" ({'; '.join(parts)})" if parts else ""
        return [
            f"There were {before['n_features']} features, now {now['n_features']}{which}. {again}"
        ]
    if before["is_scaled"] != now["is_scaled"]:
        return [f"Features are {'now' if now['is_scaled'] else 'no longer'} scaled. {again}"]
    old = dict(zip(before["ids"], before["features"], strict=bool(before["features"])))
    new = dict(zip(now["ids"], now["features"], strict=bool(now["features"])))
    if _is_numbered(before["ids"]) and _is_numbered(now["ids"]):
        n = len(set(new.values()) - set(old.values())) if len(old) == len(new) else 0
    else:
        n = sum(old[name] != new[name] for name in old.keys() & new.keys())
    return [f"{n} {'item has' if n == 1 else 'items have'} other features. {again}"] if n else []


def _is_numbered(ids: Sequence[str]) -> bool:
    return list(ids) == [str(row) for row in range(len(ids))]


def _tell(names: set[str], what: str) -> str:
    few = ", ".join(sorted(names)[:_MOST_NAMED])
    more = ", …" if len(names) > _MOST_NAMED else ""
    return f"{_items(len(names))} {what} ({few}{more})"


def _items(n: int) -> str:
    return f"{n} {'item was' if n == 1 else 'items were'}"


def _count(n: int) -> str:
    return f"{n} {'answer' if n == 1 else 'answers'}"
