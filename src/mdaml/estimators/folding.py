"""Steps of pipelines that work on the columns of a table, as a preparation and one linear map.

Every column between two steps is a cell of the table as it is, or a weighted sum of features:
numbers of the table, and zeros and ones for its categories. So imputers say what empty cells are
filled with, encoders which categories there are, and all else is linear.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
)
from sklearn.utils.validation import check_is_fitted

from mdaml._typing import FloatArray
from mdaml._validation import ignore_warnings
from mdaml.estimators.linear_steps import LINEAR, Affine, apply_step, linear_part, pull_back
from mdaml.estimators.local import LocalMDaML
from mdaml.estimators.local_handover import put_behind
from mdaml.io.preparation import Preparation, to_text

OF_COLUMNS = (
    *(ColumnTransformer, FeatureUnion, SimpleImputer, OneHotEncoder, OrdinalEncoder),
    FunctionTransformer,
)
_KNOWN = ", ".join(kind.__name__ for kind in (*OF_COLUMNS[:5], *LINEAR))
_NUMBER = -1  # in place of the place of a category


def refuse(step: BaseEstimator, why: str = "") -> TypeError:
    """Return an error that names a step which cannot be folded."""
    why = f": {why}" if why else f". These can: {_KNOWN}, Normalizer."
    return TypeError(
        f"{type(step).__name__} cannot be folded into a metric{why} Apply it to X first, and fold "
        "the rest of the pipeline."
    )


def check_step(step: BaseEstimator) -> None:
    """Refuse a step that is not fitted, or whose settings make it something else than linear."""
    check_is_fitted(step)
    if isinstance(step, MinMaxScaler) and step.clip:
        raise refuse(step, "clip=True is not linear.")


class _FoldedColumn(NamedTuple):
    """A cell of the table as it is, or a sum of features by column and place, and a number."""

    raw: str | None
    weights: dict[tuple[str, int], float]
    offset: float


def _add(parts: Sequence[_FoldedColumn], scales: Sequence[float], offset: float) -> _FoldedColumn:
    """Return a weighted sum of columns, without what weighs nothing."""
    weights: dict[tuple[str, int], float] = {}
    for part, scale in zip(parts, scales, strict=True):
        offset += scale * part.offset
        for key, weight in part.weights.items() if scale else ():
            weights[key] = weights.get(key, 0.0) + scale * weight
    return _FoldedColumn(None, weights, float(offset))


@dataclass
class _FoldedTable:
    """What the steps so far say about the columns of a table."""

    names: list[str]
    fills: dict[str, float | str] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)
    unknown: str = "ignore"

    @singledispatchmethod
    def follow(self, step: BaseEstimator, columns: list[_FoldedColumn]) -> list[_FoldedColumn]:
        """Return the columns behind a step."""
        if isinstance(step, Normalizer):
            raise refuse(step, "it must come after all steps that treat only some columns.")
        if not isinstance(step, LINEAR):
            raise refuse(step)
        check_step(step)
        matrix = linear_part(step)
        offsets = apply_step(step, np.zeros((1, step.n_features_in_))).ravel().tolist()
        inner = [self._as_number(column) for column in columns]
        if matrix.ndim == 1:
            each = zip(inner, matrix, offsets, strict=True)
            return [_add([column], [scale], offset) for column, scale, offset in each]
        return [_add(inner, row, b) for row, b in zip(matrix, offsets, strict=True)]

    @follow.register(Pipeline)
    def _(self, step: Pipeline, columns: list[_FoldedColumn]) -> list[_FoldedColumn]:
        for _, part in step.steps:
            if part is not None and part != "passthrough":
                columns = self.follow(part, columns)
        return columns

    @follow.register(FunctionTransformer)
    def _(self, step: FunctionTransformer, columns: list[_FoldedColumn]) -> list[_FoldedColumn]:
        if step.func is not None:
            raise refuse(step, "a function of your own is not known to be linear.")
        return columns

    @follow.register(ColumnTransformer)
    def _(self, step: ColumnTransformer, columns: list[_FoldedColumn]) -> list[_FoldedColumn]:
        names = list(getattr(step, "feature_names_in_", ()))
        found = list[_FoldedColumn]()
        for name, part, chosen in step.transformers_:
            if isinstance(part, str) and part == "drop":
                continue  # may choose columns that are not there
            some = [columns[place] for place in _find_places(chosen, names, len(columns))]
            found += self._follow_part(part, some, (step.transformer_weights or {}).get(name, 1.0))
        return found

    @follow.register(FeatureUnion)
    def _(self, step: FeatureUnion, columns: list[_FoldedColumn]) -> list[_FoldedColumn]:
        weights = step.transformer_weights or {}
        return [
            column
            for name, part in step.transformer_list
            for column in self._follow_part(part, columns, weights.get(name, 1.0))
        ]

    def _follow_part(
        self, part: BaseEstimator | str, columns: list[_FoldedColumn], weight: float
    ) -> list[_FoldedColumn]:
        """Return the weighted columns behind one of the steps that stand side by side."""
        if isinstance(part, str):
            columns = [] if part == "drop" else columns
        elif columns:
            columns = self.follow(part, columns)
        if weight == 1.0:
            return columns
        return [_add([self._as_number(column)], [weight], 0.0) for column in columns]

    @follow.register(SimpleImputer)
    def _(self, step: SimpleImputer, columns: list[_FoldedColumn]) -> list[_FoldedColumn]:
        check_is_fitted(step)
        if step.add_indicator:
            raise refuse(step, "add_indicator=True adds columns, which a folded metric cannot do.")
        if to_text(step.missing_values):
            raise refuse(step, f"missing_values={step.missing_values!r} is not NaN or None.")
        found = list[_FoldedColumn]()
        for column, value in zip(columns, step.statistics_.tolist(), strict=True):
            if not to_text(value):
                continue  # the column was empty, and is left out
            if column.raw is not None:
                self._fill(step, column.raw, value)
            elif len(column.weights) == 1:
                ((name, place), weight) = next(iter(column.weights.items()))
                if place == _NUMBER:
                    self._fill(step, name, (value - column.offset) / weight)
            found.append(column)
        return found

    @follow.register(OneHotEncoder)
    @follow.register(OrdinalEncoder)
    def _(self, step: BaseEstimator, columns: list[_FoldedColumn]) -> list[_FoldedColumn]:
        check_is_fitted(step)
        if any(column.raw is None for column in columns):
            raise refuse(step, "it must come before steps that compute with its columns.")
        refuses = step.handle_unknown == "error"
        self.unknown = "error" if refuses else self.unknown
        base = [values[0] for values in step.categories_]
        at_base = _encode(step, base)
        sums = [_FoldedColumn(None, {}, float(b)) for b in at_base]
        for place, (column, values) in enumerate(zip(columns, step.categories_, strict=True)):
            name = str(column.raw)
            self._list_categories(step, name, list(map(to_text, values.tolist())))
            probes = [*values.tolist(), *([] if refuses else [_unlike(values)])]
            rows = [_encode(step, [*base[:place], v, *base[place + 1 :]]) for v in probes]
            other = at_base if refuses else rows.pop()
            if not np.isfinite([*rows, other]).all():
                raise refuse(step, "it turns some cells into NaN. Put a SimpleImputer before it.")
            for n, row in enumerate(rows):
                for out in np.flatnonzero(row - other).tolist():
                    sums[out].weights[name, n] = float(row[out] - other[out])
            sums = [
                s._replace(offset=s.offset + d) for s, d in zip(sums, other - at_base, strict=True)
            ]
        return sums

    def _as_number(self, column: _FoldedColumn) -> _FoldedColumn:
        if column.raw is None:
            return column
        if column.raw in self.categories:
            raise TypeError(_TWICE.format(column.raw))
        self.numbers.add(column.raw)
        return _FoldedColumn(None, {(column.raw, _NUMBER): 1.0}, 0.0)

    def _list_categories(self, step: BaseEstimator, name: str, known: list[str]) -> None:
        if name in self.numbers or self.categories.get(name, known) != known:
            raise TypeError(_TWICE.format(name))
        if "" in known:
            self.fills.setdefault(name, "")
        if name in self.fills:
            self.fills[name] = fill = to_text(self.fills[name])
            if fill not in known and step.handle_unknown == "error":
                del self.fills[name]  # an empty cell is refused, as by the encoder
            elif fill not in known:
                known = [*known, fill]  # one more that is none of those that the encoder knows
        self.categories[name] = known

    def _fill(self, step: BaseEstimator, name: str, value: float | str) -> None:
        if self.fills.setdefault(name, value) != value:
            raise refuse(step, f"column {name!r} is filled in two ways.")

    def finish(self, columns: list[_FoldedColumn], is_named: bool) -> tuple[Preparation, Affine]:
        """Return how the table is prepared, and the linear map behind."""
        columns = [self._as_number(column) for column in columns]
        if is_named:
            used = [n for n in self.names if n in self.numbers or n in self.categories]
        else:
            used = self.names
            unused = set(used) - self.numbers - set(self.categories)
            self.fills |= dict.fromkeys(unused, 0.0)
        fills = {n: v if n in self.categories else float(v) for n, v in self.fills.items()}
        known = Preparation(
            tuple(used),
            is_named,
            missing="fill",
            fills={name: value for name, value in fills.items() if name in used},
            categories={
                name: tuple(self.categories[name]) for name in used if name in self.categories
            },
            both=True,
            unknown=self.unknown,
        )
        keys = [
            (name, place)
            for name in used
            for place in range(len(self.categories[name]) if name in self.categories else 1)
        ]
        places = {
            (name, place if name in self.categories else _NUMBER): n
            for n, (name, place) in enumerate(keys)
        }
        matrix = np.zeros((len(columns), len(keys)))
        for row, column in zip(matrix, columns, strict=True):
            for key, weight in column.weights.items():
                row[places[key]] = weight
        return known, Affine(matrix, np.array([column.offset for column in columns]))


_TWICE = "Column {!r} is used in two ways, which cannot be folded. Give it to one step only."


def fold_columns(
    steps: Sequence[BaseEstimator], names: Sequence[str] | None
) -> tuple[Preparation, Affine]:
    """Return steps that work on columns as a preparation of the table, and a linear map behind.

    Without names, columns are called x0, x1 and so on, and found by their place.
    """
    is_named = names is not None
    if names is None:
        names = [f"x{n}" for n in range(steps[0].n_features_in_)]
    table = _FoldedTable(list(names))
    columns = [_FoldedColumn(name, {}, 0.0) for name in names]
    for step in steps:
        columns = table.follow(step, columns)
    return table.finish(columns, is_named)


def _find_places(chosen: Any, names: list[str], n_columns: int) -> list[int]:
    """Return the places of columns as a ColumnTransformer was told them."""
    if isinstance(chosen, slice) and (
        isinstance(chosen.start, str) or isinstance(chosen.stop, str)
    ):
        first = 0 if chosen.start is None else names.index(chosen.start)
        last = n_columns if chosen.stop is None else names.index(chosen.stop) + 1
        return list(range(first, last))
    if isinstance(chosen, slice):
        return list(range(n_columns))[chosen]
    listed = [chosen] if isinstance(chosen, str | int) else list(chosen)
    if listed and all(isinstance(each, bool | np.bool) for each in listed):
        return np.flatnonzero(listed).tolist()
    return [
        names.index(each) if isinstance(each, str) else range(n_columns)[each] for each in listed
    ]


def _encode(step: BaseEstimator, row: Sequence[object]) -> FloatArray:
    """Return what an encoder makes of one row."""
    cells = np.empty((1, len(row)), object)
    cells[0] = row
    names = getattr(step, "feature_names_in_", None)
    table: Any = cells
    if names is not None:
        from pandas import DataFrame

        table = DataFrame(cells, columns=names)
    with ignore_warnings(UserWarning, "sklearn"):  # that a category is not known is the point
        made = step.transform(table)
    made = made.toarray() if hasattr(made, "toarray") else made
    return np.asarray(made, np.float64).ravel()


def _unlike(values: Any) -> Any:
    """Return a category that is none of these, of their type."""
    known = [value for value in values.tolist() if to_text(value)]
    if known and all(isinstance(value, int | float) for value in known):
        return max(known) + 1
    return "".join(map(str, known)) + "?"


def fold_steps(model: BaseEstimator, steps: Sequence[BaseEstimator]) -> BaseEstimator:
    """Turn a model of scaled and rotated samples into one of samples as they are, in place.

    For the map L of scaled samples, ``L diag(1/scale)`` gives raw samples the same distances, which
    do not depend on the means; for that of principal components V it is ``L V``. Centres of modes
    go back to where the samples are; weights in the modes depend on distances only and stay.
    ``input_map_`` keeps the map to what the metric was fitted to, so that it can be fitted again.
    """
    for metric in list_metrics(model):
        if isinstance(metric, LocalMDaML) and not metric.is_linear:
            width = len(metric.mean_) if metric.front_matrix_ is None else len(metric.front_matrix_)
            metric.input_map_ = _input_map(metric, steps, width)
            matrix: FloatArray = np.eye(metric.n_features_in_)
            for step in reversed(steps):
                matrix = pull_back(step, matrix)
            put_behind(metric, steps, matrix)
            continue
        L = metric.components_
        centers = getattr(metric, "centers_", None)
        centers = None if isinstance(metric, LocalMDaML) else centers
        with np.errstate(over="ignore"):  # no model is saved that is not finite
            for step in reversed(steps):
                metric.components_ = pull_back(step, metric.components_)
                centers = None if centers is None else step.inverse_transform(centers)
            metric.components_ = metric.components_.astype(L.dtype)
            metric.input_map_ = _input_map(metric, steps, L.shape[1])
        metric.n_features_in_ = metric.components_.shape[1]
        if centers is not None:
            metric.centers_ = np.asarray(centers).astype(metric.centers_.dtype)
        if isinstance(metric, LocalMDaML):  # without modes
            metric.mean_ = np.zeros(metric.n_features_in_)
            nothing = np.empty((0, metric.n_features_in_))
            metric.centers_ = metric.map_centers_ = metric.landmark_centers_ = nothing
    return model


def _input_map(metric: BaseEstimator, steps: Sequence[BaseEstimator], width: int) -> FloatArray:
    """Return the linear map from X to what the metric was fitted to, of shape (d,) if diagonal."""
    A: FloatArray = getattr(metric, "input_map_", np.ones(width))
    for step in reversed(steps):
        if A.ndim == 1 and linear_part(step).ndim == 2:
            A = np.diag(A)
        A = pull_back(step, A)
    return A


def list_metrics(model: BaseEstimator) -> list[BaseEstimator]:
    """Return the model, and the one that it chose, or that its kinds of people share, if any."""
    inner = [getattr(model, name, None) for name in ("best_estimator_", "metric_")]
    return [model, *(metric for metric in inner if metric is not None)]
