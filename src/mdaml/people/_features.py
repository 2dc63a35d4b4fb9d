"""Margins of answers as linear functions of a person's coefficients."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.arguments import persons_of
from mdaml.constraints.persons import Persons
from mdaml.constraints.value import Constraints


@dataclass(frozen=True)
class Coordinates:
    """Metrics ``M = L^T diag(S, c I) L`` by the entries of S on the leading r axes of L, and c.

    The basis of symmetric matrices S is orthonormal: off the diagonal ``sqrt(2)`` times the entry.
    """

    n_axes: int  # r
    n_others: int  # axes that all persons stretch alike, by c; perhaps none

    @property
    def size(self) -> int:
        """The number of coefficients, q."""
        return self.n_axes * (self.n_axes + 1) // 2 + (self.n_others > 0)

    def identity(self) -> FloatArray:
        """Return the coefficients of ``M = L^T L``, (q,)."""
        rows, columns = np.triu_indices(self.n_axes)
        out = np.ones(self.size)
        out[: len(rows)] = rows == columns
        return out

    def squares(self, differences: FloatArray) -> FloatArray:
        """Return what a squared length is made of, (n, q), for differences of mapped samples."""
        rows, columns = np.triu_indices(self.n_axes)
        out = np.empty((len(differences), self.size))
        np.multiply(differences[:, rows], differences[:, columns], out=out[:, : len(rows)])
        out[:, : len(rows)] *= np.where(rows == columns, 1.0, np.sqrt(2.0))
        if self.n_others:
            rest = differences[:, self.n_axes :]
            out[:, -1] = np.einsum("ij,ij->i", rest, rest)
        return out

    def components(self, coefficients: FloatArray, L: FloatArray) -> FloatArray:
        """Return the linear map of a person; what is negative of S is cut off."""
        rows, columns = np.triu_indices(self.n_axes)
        entries = coefficients[: len(rows)] * np.where(rows == columns, 1.0, np.sqrt(0.5))
        S = np.zeros((self.n_axes, self.n_axes))
        S[rows, columns] = S[columns, rows] = entries
        lengths, axes = np.linalg.eigh(S)
        leading = (axes * np.sqrt(np.maximum(lengths, 0.0))).T @ L[: self.n_axes]
        if not self.n_others:
            return leading
        return np.vstack([leading, np.sqrt(max(coefficients[-1], 0.0)) * L[self.n_axes :]])


@dataclass(frozen=True)
class Answers:
    """Comparisons of mapped samples, sorted by person; features are made when they are needed."""

    coordinates: Coordinates
    Y: FloatArray  # (N, number of axes) mapped samples
    comparisons: IntArray  # (n, 4) near pair, far pair
    weights: FloatArray  # (n,)
    bounds: IntArray  # (P + 1,) answers bounds[p]:bounds[p + 1] are those of person p

    @classmethod
    def of(
        cls, coordinates: Coordinates, Y: FloatArray, said: Constraints, persons: Persons
    ) -> "Answers":
        """Sort comparisons by person."""
        order = np.argsort(persons.codes, kind="stable")
        counts = np.bincount(persons.codes, minlength=len(persons))
        bounds = np.concatenate([[0], np.cumsum(counts)])
        comparisons, weights = said.comparisons()[order], said.weights[order]
        return cls(coordinates, Y.astype(np.float64, copy=False), comparisons, weights, bounds)

    @property
    def n_answers(self) -> int:
        """The number of answers."""
        return len(self.comparisons)

    @property
    def n_persons(self) -> int:
        """The number of persons, each with an answer at least."""
        return len(self.bounds) - 1

    def features(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return f with margin ``d2(far) - d2(near) = f . coefficients``, (n, q), and weights."""
        a, b, c, d = self.comparisons[first:last].T
        squares = self.coordinates.squares
        far = squares(self.Y[c] - self.Y[d])
        far -= squares(self.Y[a] - self.Y[b])
        return far, self.weights[first:last]


def check_persons(said: Constraints, who: Any, n_groups: Any = "auto") -> Persons:
    """Return who gave each comparison; there must be persons, no fewer than groups."""
    if who is None:
        raise ValueError(
            "PersonalMetrics needs who=, a name for each comparison. Without persons there is one "
            "metric: MDaML learns it."
        )
    persons = persons_of(said, who)
    if n_groups != "auto" and n_groups > len(persons):
        raise ValueError(
            f"PersonalMetrics(n_groups=...) must be at most the number of persons, which is "
            f"{len(persons)}; got {n_groups}."
        )
    return persons
