"""A store that several fits share, so that what they have in common is computed once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partialmethod
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import numpy as np

from mdaml._typing import FloatArray, IntArray
from mdaml.constraints.labels import Classes, Pairing
from mdaml.constraints.value import Constraints

# Results of each kind that are kept. Weights are small; the others are as large as a fit. Two are
# enough for fits that begin alike: the common beginning, and where the last one went.
_N_WEIGHTS, _N_OTHERS = 8, 2
Made = TypeVar("Made")


@dataclass
class _Recent:
    """The last few results, by what they were made of."""

    most: int
    made: OrderedDict[Hashable, tuple[Any, object]] = field(default_factory=OrderedDict)
    lock: AbstractContextManager[object] = field(default_factory=Lock, repr=False)

    def once(self, key: Hashable, make: Callable[[], Made], alive: object = None) -> Made:
        """Return what was made for a key, or make it; ``alive`` are arrays whose id is in a key."""
        with self.lock:  # fits that go on side by side wait for what one of them makes
            if key not in self.made:
                self.made[key] = make(), alive
                if len(self.made) > self.most:
                    self.made.popitem(last=False)
            self.made.move_to_end(key)
            return self.made[key][0]


class SharedStore:
    """A store for several fits to the same samples, one after the other or side by side.

    Equal requests get equal answers, so no result depends on what was asked before: neighbours
    under a metric, comparisons grouped and coloured, principal axes, and the first weights in the
    modes. Under the first metric of all, where most fits begin, at least as many neighbours are
    searched as ``ahead`` says, of the same class and of others; fits that want fewer get the
    nearest of them. That is for an exact search only, of which fewer are the first of more.
    """

    def __init__(
        self,
        store: Any,
        memory: dict[str, _Recent] | None = None,
        ahead: tuple[int, int] = (0, 0),
    ) -> None:
        self._store, self._ahead = store, ahead
        self._memory = memory or {
            "weights": _Recent(_N_WEIGHTS),
            "neighbors": _Recent(_N_OTHERS),
            "compared": _Recent(_N_OTHERS),
            "ahead": _Recent(1),
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def compare(self, supervision: Constraints) -> "SharedStore":
        """See :class:`~mdaml.solver.store.Store`, here and below."""
        parts = (
            (supervision.quadruplets, supervision.weights)
            if len(supervision.quadruplets)
            else (supervision.triplets,)
        )
        key = tuple(id(part) for part in parts)
        made = self._memory["compared"].once(key, lambda: self._store.compare(supervision), parts)
        return SharedStore(made, self._memory, self._ahead)

    def nearest(
        self, F: FloatArray, classes: Classes, n_similar: int, n_dissimilar: int
    ) -> tuple[IntArray, IntArray]:
        under = (F.shape, F.tobytes(), id(classes))

        def search() -> tuple[IntArray, IntArray]:
            most = max(n_similar, self._ahead[0]), max(n_dissimilar, self._ahead[1])
            ahead = self._memory["ahead"]
            if not any(self._ahead) or (ahead.made and (*under, *most) not in ahead.made):
                return self._store.nearest(F, classes, n_similar, n_dissimilar)
            near, far = ahead.once(
                (*under, *most), lambda: self._store.nearest(F, classes, *most), classes
            )
            return near[:, :n_similar].copy(), far[:, :n_dissimilar].copy()

        key = (*under, n_similar, n_dissimilar)
        return self._memory["neighbors"].once(key, search, classes)

    def _drawn(self, name: str, *args: Any) -> Any:
        """Return what the store draws, and leave the generator as if it had been drawn now."""
        *sizes, rng = args

        def draw() -> tuple[Any, Any]:
            return getattr(self._store, name)(*args), rng.get_state()

        made, after = self._memory["weights"].once((name, *sizes, _state(rng)), draw)
        rng.set_state(after)
        return made

    leading_axes = partialmethod(_drawn, "leading_axes")
    count_modes = partialmethod(_drawn, "count_modes")
    mixture_weights = partialmethod(_drawn, "mixture_weights")
    kmeans_weights = partialmethod(_drawn, "kmeans_weights")


SharedStores: TypeAlias = dict[str | None, SharedStore]  # of the same samples, by device


@dataclass(frozen=True)
class SharedClasses(Classes):
    """Classes for several fits: the same neighbours are joined to the same triplets, once."""

    recent: _Recent = field(default_factory=lambda: _Recent(_N_OTHERS), compare=False)

    @classmethod
    def of_classes(cls, classes: Classes) -> "SharedClasses":
        """Return the same classes, to be shared."""
        return cls(classes.rows, classes.of, classes.first, classes.size)

    def neighbor_triplets(self, near: IntArray, far: IntArray, pairing: Pairing) -> IntArray:
        make = super().neighbor_triplets
        return self.recent.once(
            (id(near), id(far), pairing), lambda: make(near, far, pairing), (near, far)
        )


def _state(rng: np.random.RandomState) -> tuple[Hashable, ...]:
    name, key, *rest = rng.get_state()
    return (name, np.asarray(key).tobytes(), *rest)
