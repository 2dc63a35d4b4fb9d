"""Names of array types; where they are shown, by ``help`` and in the reference, they stay names."""

from typing import TYPE_CHECKING, Any, NewType, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike

    FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
    IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
    BoolArray: TypeAlias = npt.NDArray[np.bool_]
else:
    ArrayLike = NewType("ArrayLike", object)
    ArrayLike.__module__ = "numpy.typing"
    FloatArray = NewType("FloatArray", object)
    IntArray = NewType("IntArray", object)
    BoolArray = NewType("BoolArray", object)
