"""Comparisons in files: read, checked against the rows of a table, and counted."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdaml.cli._output import CommandError
from mdaml.cli._tables import Table, check_file

if TYPE_CHECKING:
    from mdaml.constraints import Constraints

_SHOWN = 10
_KINDS = ("triplets", "pairs", "quadruplets")


@dataclass(frozen=True)
class ComparisonFiles:
    """Files by the option that named them."""

    triplets: Sequence[Path] | None = None
    pairs: Sequence[Path] | None = None
    quadruplets: Sequence[Path] | None = None
    constraints: Sequence[Path] | None = None

    def __bool__(self) -> bool:
        """Whether there are any."""
        return any((self.triplets, self.pairs, self.quadruplets, self.constraints))

    def named(self) -> list[tuple[str, Path]]:
        """Return all files with the kind they should hold, or "constraints"."""
        return [(kind, path) for kind in (*_KINDS, "constraints") for path in self.paths(kind)]

    def paths(self, kind: str) -> Sequence[Path]:
        """Return the files of an option."""
        return getattr(self, kind) or ()


@dataclass(frozen=True)
class Given:
    """Comparisons of rows of a table, and the lines that were left out."""

    constraints: "Constraints"
    files: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return how many there are, and what is odd about them."""
        counts = self.constraints.counts()
        n_pairs = counts.similar_pairs + counts.dissimilar_pairs
        parts = [
            counted(n, kind[:-1])
            for n, kind in zip((counts.triplets, n_pairs, counts.quadruplets), _KINDS, strict=True)
            if n
        ]
        odd = [
            counted(len(self.skipped), "line skipped", "lines skipped"),
            counted(counts.duplicates, "duplicate"),
            counted(counts.contradictions, "contradiction"),
        ]
        told = f"{', '.join(self.files)}: {', '.join(parts)} of {counts.points} points"
        return f"{told}; {', '.join(odd)}"

    def facts(self) -> dict[str, Any]:
        """Return the same for machines."""
        return {
            "files": list(self.files),
            **asdict(self.constraints.counts()),
            "skipped": len(self.skipped),
            "problems": list(self.skipped[:_SHOWN]),
        }


def counted(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def read_comparisons(files: ComparisonFiles, table: Table, *, skip_invalid: bool) -> Given:
    """Read all files; wrong lines are refused, the first of them named, unless skipped."""
    parts, problems, n_lines = [], list[str](), 0
    for kind, path in files.named():
        value, wrong = _read(path, table)
        _check_kind(kind, path, value)
        n_lines += value.n_constraints + len(wrong)
        problems += wrong
        parts.append(value)
    if problems and not skip_invalid:
        raise _refusal(problems, n_lines)
    names = tuple(str(path) for _, path in files.named())
    return Given(_joined(parts, len(table.X)), names, tuple(problems))


def _read(path: Path, table: Table) -> tuple["Constraints", list[str]]:
    from mdaml.constraints import read_constraints

    check_file(path)
    try:
        if table.ids is None:
            value, wrong = read_constraints(path, n_points=len(table.X))
        else:
            value, wrong = read_constraints(path, ids=table.ids)
    except ValueError as error:
        message = _translated(str(error))
        if "none of the ids" in message or "not an integer" in message:
            message += f" {_naming(table)}"
        raise CommandError(message) from None
    reasons = (f"{path}:{p.line}: {_translated(p.reason)} ({p.text})" for p in wrong)
    return value, list(reasons)


def _translated(reason: str) -> str:
    """Say in options what the library says in arguments."""
    return reason.replace("pass ids=", "give their column by --id")


def _naming(table: Table) -> str:
    """Say how the rows are named, which is what most often is wrong with a whole file."""
    if table.ids is None:
        return f"Points are rows of {table.path}, 0 to {len(table.X) - 1}; --id names a column."
    such = ", ".join(map(repr, table.ids[:3].tolist()))
    return f"Ids of {table.path} are such as {such}."


def _check_kind(kind: str, path: Path, value: "Constraints") -> None:
    if kind == "constraints":
        return
    others = [name for name in _KINDS if name != kind and len(getattr(value, name))]
    if others:
        raise CommandError(
            f"--{kind}: {path} holds {others[0]}. Say --{others[0]} {path}, or --constraints for "
            "a mixture."
        )


def _refusal(problems: list[str], n_lines: int) -> CommandError:
    more = len(problems) - _SHOWN
    details = problems[:_SHOWN] + ([f"… and {more} more"] if more > 0 else [])
    told = f"{len(problems)} of {counted(n_lines, 'line')} cannot be used."
    return CommandError(f"{told} Mend them, or say --skip-invalid.", details=details)


def _joined(parts: Sequence["Constraints"], n_points: int) -> "Constraints":
    """Return all constraints in one value; weights go with their kinds."""
    from mdaml.constraints import Constraints

    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (*_KINDS, "pair_labels")
    }
    by_kind = [np.split(part.weights, _ends(part)) for part in parts]
    weights = [weights[place] for place in range(len(_KINDS)) for weights in by_kind]
    return Constraints(**arrays, weights=np.concatenate(weights), n_points=n_points)


def _ends(part: "Constraints") -> list[int]:
    return [len(part.triplets), len(part.triplets) + len(part.pairs)]


def only(constraints: "Constraints", kind: str) -> "Constraints":
    """Return the constraints of one kind, on the same points."""
    sizes = [len(getattr(constraints, name)) for name in _KINDS]
    return constraints.select(np.repeat(np.array(_KINDS) == kind, sizes))
