"""Names of array types; where they are shown, by ``help`` and in the reference, they stay names."""

from typing import TYPE_CHECKING, Any, NewType, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike

    Array: TypeAlias = npt.NDArray[Any]  # of texts, or of any dtype
    FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
    IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
    BoolArray: TypeAlias = npt.NDArray[np.bool_]
    Dtype: TypeAlias = np.dtype[Any]
    Rng: TypeAlias = np.random.RandomState
    Matrix: TypeAlias = Any  # an array, or what stands for one: sparse, in blocks, a tensor
    Params: TypeAlias = dict[str, Any]  # by name: parameters, or learned attributes
else:
    ArrayLike = NewType("ArrayLike", object)
    ArrayLike.__module__ = "numpy.typing"
    Array = NewType("Array", object)
    FloatArray = NewType("FloatArray", object)
    IntArray = NewType("IntArray", object)
    BoolArray = NewType("BoolArray", object)
    Matrix = NewType("Matrix", object)
    Dtype, Params, Rng = np.dtype, dict, np.random.RandomState
