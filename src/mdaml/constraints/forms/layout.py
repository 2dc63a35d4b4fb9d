"""Which columns of a file hold what: by form, by program, or as the user passes them."""

import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from mdaml.io.messages import Naming, name_argument, shorten, suggest_name

# Files of this folder: the comparisons themselves, then what becomes comparisons.
_COMPARISONS = ("triplets", "pairs", "quadruplets")
_ANSWERS = ("choices", "odd_one_out", "picks", "rankings", "votes", "grades", "positives")


def _load(*names: str) -> dict[str, ModuleType]:
    return {name: import_module(f"mdaml.constraints.forms.{name}") for name in names}


FORMS = _load(*_COMPARISONS, *_ANSWERS)
COMPARISONS = _load(*_COMPARISONS, "mixture")
_MOST_COLUMNS = 1000


class Layout(NamedTuple):
    """What a file holds, and in which columns."""

    form: str | None = None
    columns: tuple[str, ...] | None = None  # of the file, in the order of the form
    first_place: int | None = None  # answers are places among the options, counted from this
    other_lines: bool = False  # whether lines that name no point are something else


PRESETS = {
    "salmon": Layout("triplets", ("head", "winner", "loser")),
    "things": Layout("odd_one_out", ("image1", "image2", "image3", "choice"), first_place=1),
    "jspsych": Layout("choices", ("anchor", "left", "right", "response"), 0, other_lines=True),
    "splink": Layout("pairs", ("unique_id_l", "unique_id_r", "clerical_match_score")),
}


def choose_layout(
    form: str | None, columns: Sequence[str] | None, naming: Naming = name_argument
) -> Layout:
    """Return what a file holds, from the arguments of a user: a form or preset, and columns."""
    known = [*FORMS, *PRESETS]
    name = form if form is None else str(form).lower().replace("-", "_")
    if name is not None and name not in known:
        written = [*map(name_form, known)]
        begun = [each for each in written if name and each.startswith(name_form(name))]
        meant = f" Did you mean {begun[0]!r}?" if len(begun) == 1 else ""
        raise ValueError(
            f"form must be one of {', '.join(written)}; got {form!r}."
            f"{meant or suggest_name(name_form(name), written)}"
        )
    layout = PRESETS.get(name or "", Layout(name))
    if columns is None:
        return layout
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise TypeError(f"columns must be a list of names of columns, got {columns!r}.")
    names = tuple(column.strip() for column in columns)
    if layout.form is None:
        by_count = {3: "triplets", 4: "quadruplets"}
        if len(names) not in by_count:
            raise ValueError(
                f"columns must name three columns for triplets, or four for quadruplets, got "
                f"{len(names)}. For others pass {naming('form', '')} too: one of "
                f"{', '.join(known)}."
            )
        layout = Layout(by_count[len(names)])
    _check_count(layout.form or "", names)
    return layout._replace(columns=names)


def _check_count(form: str, columns: Sequence[str]) -> None:
    """Refuse another number of columns than a form has, and columns that are there twice."""
    roles = FORMS[form].COLUMNS
    least = sum(not role.endswith("?") for role in roles)
    most = _MOST_COLUMNS if any(role.endswith("…") for role in roles) else len(roles)
    if not least <= len(columns) <= most or len(set(columns)) < len(columns):
        raise ValueError(
            f"columns of {name_form(form)} are, in this order, {list_roles(form)}; got "
            f"{', '.join(columns)}."
        )


def name_form(form: str) -> str:
    """Return the name of a form as users write it, such as odd-one-out."""
    return form.replace("_", "-")


def _name_columns(form: str, naming: Naming) -> str:
    """Return what to pass to name the columns of a form, with the usual names as an example."""
    names = [role.rstrip("…") for role in FORMS[form].COLUMNS if not role.endswith("?")]
    if naming is name_argument:  # a list in Python
        return f"columns={names}"
    return naming("columns", ",".join(names))


def list_roles(form: str) -> str:
    """Return the columns of a form for a message."""
    named = [f"perhaps {role[:-1]}" if role[-1] == "?" else role for role in FORMS[form].COLUMNS]
    return ", ".join(role.replace("…", " and so on") for role in named)


def find_columns(path: Path, header: Sequence[str], layout: Layout, naming: Naming) -> list[int]:
    """Return the place in the header of each column of a layout."""
    form, folded = layout.form or "", [name.casefold() for name in header]
    places = []
    for name in layout.columns or _default_columns(form, folded):
        if name not in header and name.casefold() not in folded:
            raise ValueError(
                f"{path}: there is no column {name!r}, which the form {name_form(form)} needs. Its "
                f"columns are {shorten(', '.join(header))}.{suggest_name(name, header)} Pass "
                f"{_name_columns(form, naming)} with your names in place of these."
            )
        exact = name in header
        places.append(header.index(name) if exact else folded.index(name.casefold()))
    return places


def suggest_layout(header: Sequence[str], naming: Naming) -> str:
    """Return a sentence on what to pass for an unknown header."""
    names = {name.strip().casefold() for name in header}
    for name, layout in PRESETS.items():
        if names >= set(layout.columns or ()):
            return f" It looks like a file of {name}: pass {naming('form', name)}."
    for name, form in FORMS.items():
        needed = {role.rstrip("…") for role in form.COLUMNS if not role.endswith("?")}
        if name not in COMPARISONS and names >= needed:
            meant = name_form(name)
            return f" It looks like {meant}: pass {naming('form', meant)}."
    return (
        f" Pass {naming('columns', '')} to say which columns are a, b and c, or "
        f"{naming('form', '')} for another form."
    )


def _default_columns(form: str, folded: Sequence[str]) -> list[str]:
    """Return the columns of a form; of numbered and optional ones those that are there."""
    columns: list[str] = []
    for role in FORMS[form].COLUMNS:
        base = re.sub(r"\d+…?$", "", role)
        if base != role:
            found = [name for name in folded if re.fullmatch(rf"{base}\d+", name)]
            numbered = sorted(found, key=lambda name: int(re.sub(r"\D", "", name)))
            columns += [name for name in numbered or [role.rstrip("…")] if name not in columns]
        elif not role.endswith("?") or role[:-1] in folded:
            columns.append(role.rstrip("?"))
    return columns
