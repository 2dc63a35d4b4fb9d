"""Histograms of colours in the Lab space."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from mdaml._typing import FloatArray
from mdaml._validation import check_at_least
from mdaml.features._images import Images, Pixels, describe, missing_extra

# Pixels converted at a time, which bounds the memory for large photographs.
_BLOCK = 1 << 16


def lab_histogram(
    images: Images,
    *,
    n_bins: int = 10,
    ranges: Sequence[tuple[float, float]] = ((0, 100), (-90, 100), (-110, 100)),
    n_jobs: int | None = None,
    callback: Callable[[int], object] | None = None,
) -> FloatArray:
    """Return histograms of the lightness L and of the colour axes a and b, side by side.

    Each channel of CIE Lab (white point D65, two degrees) has its own histogram with bins of equal
    width. Each histogram sums to 1/3 and all three together to 1, like the colour features of
    PubFig [1]_, whose bins were not published.

    Parameters
    ----------
    images : folder, or iterable of paths, arrays and Pillow images
        As for `gist`; a grey image has equal channels. All pixels are counted, without scaling.
    n_bins : int, default=10
        Bins of each channel.
    ranges : sequence of three pairs, default=((0, 100), (-90, 100), (-110, 100))
        Lower and upper end of the bins of L, a and b; values outside are counted in the first or
        last bin. The defaults contain all colours of sRGB, and grey, where a and b are 0, is not
        on the edge between two bins.
    n_jobs : int or None, default=None
        Number of threads, as for `gist`.
    callback : callable or None, default=None
        Called as ``callback(n_done)`` after each image.

    Returns
    -------
    ndarray of shape (n_images, 3 * n_bins)
        The bins of L from dark to light, of a from green to red, of b from blue to yellow; each
        value is a third of the share of pixels in the bin.

    See Also
    --------
    gist : Textures, where this has colours.

    References
    ----------
    .. [1] D. Parikh and K. Grauman, "Relative attributes", International Conference on Computer
       Vision, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from mdaml.features import lab_histogram
    >>> image = np.zeros((8, 8, 3))  # black
    >>> image[:, 4:] = 1.0  # and white
    >>> L, a, b = 3 * lab_histogram([image]).reshape(3, 10)
    >>> L
    array([0.5, 0. , 0. , 0. , 0. , 0. , 0. , 0. , 0. , 0.5])
    >>> a
    array([0., 0., 0., 0., 1., 0., 0., 0., 0., 0.])
    """
    check_at_least("n_bins", n_bins, 1)
    bounds = np.asarray(ranges, float)
    if bounds.shape != (3, 2) or not np.isfinite(bounds).all() or (np.diff(bounds) <= 0).any():
        raise ValueError(f"ranges must be three pairs (low, high) with low < high, got {ranges!r}.")
    counted = partial(_histogram, n_bins=n_bins, bounds=bounds)
    return describe(images, counted, n_jobs=n_jobs, callback=callback)


def _histogram(pixels: Pixels, n_bins: int, bounds: FloatArray) -> FloatArray:
    low, high = bounds.T
    colors = pixels.reshape(-1, *pixels.shape[2:])  # (P,) or (P, 3)
    counts = np.zeros((3, n_bins))
    for start in range(0, len(colors), _BLOCK):
        places = (_lab(colors[start : start + _BLOCK]) - low) / (high - low) * n_bins
        places = np.clip(places, 0, n_bins - 1).astype(int)
        for channel in range(3):
            counts[channel] += np.bincount(places[:, channel], minlength=n_bins)
    return counts.ravel() / (3 * len(colors))


def _lab(colors: Pixels) -> FloatArray:
    try:
        from skimage.color import rgb2lab
    except ModuleNotFoundError as error:
        raise missing_extra("The Lab colour space", error) from None
    if colors.ndim == 1:
        colors = np.repeat(colors[:, np.newaxis], 3, axis=1)
    return rgb2lab(colors)
