"""GIST descriptors: the strength of each orientation and scale in each part of an image."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from numbers import Real

import numpy as np
import numpy.typing as npt
from scipy import fft
from scipy.sparse import csr_array

from mdaml._typing import FloatArray
from mdaml._validation import check_at_least
from mdaml.features._images import FULL_SCALE, Images, Pixels, describe

# Constants of the authors' programs. Prefilter: pixels added around the image, and the contrast
# below which it does not amplify. Filters: the highest frequency in cycles per pixel, the ratio of
# successive frequencies, and the sharpness along and across.
_MARGIN = 5
_MOST_VALUES = 2**31  # of all filters together: 16 GiB
_CONTRAST_FLOOR = 0.2
_TOP_FREQUENCY = 0.3
_FREQUENCY_RATIO = 1.85
_RADIAL_SHARPNESS = 3.5
_ANGULAR_SHARPNESS = np.pi / 32


def gist(
    images: Images,
    *,
    size: int = 256,
    crop: bool = True,
    stretch: bool = True,
    cutoff: float = 4.0,
    boundary: int = 32,
    n_orientations: Sequence[int] = (8, 8, 8, 8),
    n_blocks: int = 4,
    dtype: npt.DTypeLike = np.float64,
    n_jobs: int | None = None,
    callback: Callable[[int], object] | None = None,
) -> FloatArray:
    r"""GIST descriptors of images: 512 numbers each, by default.

    The descriptor of Oliva and Torralba [1]_ as their programs compute it. The steps are

    1. grey values from 0 to 255, the plain mean of the colour channels, not rounded;
    2. bilinear scaling, with a triangle as wide as the reduction, until the shorter side is
       `size`; the middle `size` x `size` pixels; their values stretched to 0..255;
    3. :math:`u = \log(1 + \text{grey})`, then :math:`v = u - g * u` and
       :math:`w = v / (0.2 + \sqrt{g * v^2})`, where g is the low pass
       :math:`\exp(-\log 2\, (f / \text{cutoff})^2)` with f in cycles per side, on the image with 5
       pixels mirrored at each side;
    4. for each scale s = 0, 1, … with m orientations j = 0, 1, …, m - 1 the modulus of w, with
       `boundary` pixels mirrored at each side, under the transfer function

       .. math:: \exp\left(-3.5\, (r / r_s - 1)^2 - 2 \pi\, (m / 8)^2 (a + \pi j / m)^2\right),

       where r is the frequency in cycles per pixel, :math:`r_s = 0.3 / 1.85^s`, and the angle a of
       the frequency, from columns to rows, is taken so that the bracket lies in
       :math:`[-\pi, \pi]`;
    5. its means over `n_blocks` x `n_blocks` equal parts of the image.

    Parameters
    ----------
    images : folder, or iterable of paths, arrays and Pillow images
        The images; those of a folder in the order of `list_images`. Arrays have shape (H, W) or
        (H, W, 3) and are uint8, uint16, or floating point from 0 to 1. Files need the images
        extra; they are rotated as their EXIF entry says, and transparency is dropped. An iterator
        is read during the computation, so its images need not fit into memory together.
    size : int, default=256
        Side of the square that is described, even.
    crop : bool, default=True
        Keep the proportions and cut off what exceeds the square. If False, the whole image is
        squeezed into the square.
    stretch : bool, default=True
        Stretch the grey values of the square to 0..255.
    cutoff : float, default=4.0
        Frequency, in cycles per side, below which step 3 removes brightness and contrast.
    boundary : int, default=32
        Pixels mirrored at each side in step 4, so that opposite sides do not affect each other.
    n_orientations : sequence of int, default=(8, 8, 8, 8)
        Orientations of each scale, from the finest to the coarsest.
    n_blocks : int, default=4
        Parts along each side.
    dtype : {float64, float32}, default=float64
        Precision of step 4 and of the result. Single precision takes about two thirds of the time
        and changes the features by a few millionths.
    n_jobs : int or None, default=None
        Number of threads, each of which describes one image at a time: None is one, -1 is one per
        available core. The result does not depend on it.
    callback : callable or None, default=None
        Called as ``callback(n_done)`` after each image.

    Returns
    -------
    ndarray of shape (n_images, n_blocks ** 2 * sum(n_orientations))
        Zero or more, in the order of scales, then orientations, then blocks column by column.
        Orientation 0 responds to vertical stripes, the middle one to horizontal stripes. A uniform
        image gives zeros.

    See Also
    --------
    lab_histogram : Colours, where GIST has textures.
    list_images : The files of a folder, in this order.

    Notes
    -----
    The defaults are the usual settings. ``size=128, stretch=False, boundary=0`` comes close to the
    OSR and PubFig features of Parikh and Grauman.

    References
    ----------
    .. [1] A. Oliva and A. Torralba, "Modeling the shape of the scene: a holistic representation
       of the spatial envelope", International Journal of Computer Vision 42(3), 2001.

    Examples
    --------
    Stripes at the frequency of the second scale, 0.3 / 1.85 cycles per pixel:

    >>> import numpy as np
    >>> from mdaml.features import gist
    >>> wave = 0.5 + 0.5 * np.sin(2 * np.pi * 0.3 / 1.85 * np.arange(256))
    >>> vertical = np.tile(wave, (256, 1))
    >>> features = gist([vertical, vertical.T])
    >>> features.shape
    (2, 512)
    >>> energies = features.reshape(2, 32, 16).mean(axis=2)
    >>> energies.argmax(axis=1)  # orientations 0 and 4 of the second scale
    array([ 8, 12])
    """
    n_orientations, precision = tuple(n_orientations), np.dtype(dtype)
    _check_options(size, cutoff, boundary, n_orientations, n_blocks, precision)
    # Computed once before the threads start, so that each of them finds it in the cache.
    _transfer_functions(size + 2 * boundary, n_orientations, precision)

    def descriptor(pixels: Pixels) -> FloatArray:
        square = _to_square(_grey(pixels), size, crop)
        w = _prefiltered(_stretched(square) if stretch else square, cutoff)
        return _block_energies(w, boundary, n_orientations, n_blocks, precision)

    return describe(images, descriptor, n_jobs=n_jobs, callback=callback)


def _check_options(
    size: int,
    cutoff: float,
    boundary: int,
    n_orientations: tuple[int, ...],
    n_blocks: int,
    dtype: np.dtype[np.generic],
) -> None:
    check_at_least("size", size, 2)
    if size % 2:
        raise ValueError(f"size must be even, got {size}.")
    check_at_least("boundary", boundary, 0)
    check_at_least("n_blocks", n_blocks, 1)
    if n_blocks > size:
        raise ValueError(f"n_blocks must be at most size={size}, got {n_blocks}.")
    if not n_orientations:
        raise ValueError("n_orientations must have a number for at least one scale, got none.")
    for count in n_orientations:
        check_at_least("n_orientations", count, 1)
    n_values = (size + 2 * boundary) ** 2 * sum(n_orientations)
    if n_values > _MOST_VALUES:
        raise ValueError(
            f"size={size}, boundary={boundary} and {sum(n_orientations)} orientations need filters "
            f"of {n_values:.1e} values; at most {_MOST_VALUES:.1e} are computed. Make size smaller."
        )
    if isinstance(cutoff, bool) or not isinstance(cutoff, Real) or not 0 < cutoff < np.inf:
        raise ValueError(f"cutoff must be a finite number greater than 0, got {cutoff!r}.")
    if dtype not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {dtype}.")


def _grey(pixels: Pixels) -> FloatArray:
    """Mean of the channels, from 0 to 255."""
    grey = pixels.mean(axis=2, dtype=float) if pixels.ndim == 3 else pixels.astype(float)
    return grey * (255.0 / FULL_SCALE.get(pixels.dtype, 1))


def _to_square(grey: FloatArray, size: int, crop: bool) -> FloatArray:
    """Step 2 of `gist`; only the pixels of the square are computed."""
    lengths = [size, size]
    if crop:
        scale = size / min(grey.shape)
        lengths = [int(length * scale + 0.5) for length in grey.shape]
    rows, columns = (
        _triangle_weights(given, wanted, (wanted - size) // 2, size)
        for given, wanted in zip(grey.shape, lengths, strict=True)
    )
    return rows @ grey @ columns.T


@lru_cache(maxsize=32)  # the images of a set often have the same size
def _triangle_weights(n_in: int, n_out: int, first: int, count: int) -> csr_array:
    """Weights (count, n_in) of `n_in` pixels in the pixels from `first` on, of `n_out` in all."""
    step = n_in / n_out
    centers = (np.arange(first, first + count) + 0.5) * step
    distances = np.abs(np.arange(n_in) + 0.5 - centers[:, np.newaxis])
    weights = np.maximum(1.0 - distances / max(step, 1.0), 0.0)
    return csr_array(weights / weights.sum(axis=1, keepdims=True))


def _stretched(square: FloatArray) -> FloatArray:
    square = square - square.min()
    largest = square.max()
    # In a uniform image the division would amplify rounding errors.
    return square * (255.0 / largest) if largest > 1e-9 else np.zeros_like(square)


def _prefiltered(square: FloatArray, cutoff: float) -> FloatArray:
    """Step 3 of `gist`: remove slow changes of brightness and equalise the contrast."""
    u = np.pad(np.log1p(square), _MARGIN, mode="symmetric")
    n = len(u)
    rows, columns = fft.fftfreq(n, 1 / n)[:, np.newaxis], fft.rfftfreq(n, 1 / n)
    low_pass = np.exp(-np.log(2.0) * (rows**2 + columns**2) / cutoff**2)

    def smooth(image: FloatArray) -> FloatArray:
        return fft.irfft2(fft.rfft2(image) * low_pass, s=image.shape)

    v = u - smooth(u)
    w = v / (_CONTRAST_FLOOR + np.sqrt(np.abs(smooth(v**2))))
    return w[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]


def _block_energies(
    w: FloatArray,
    boundary: int,
    n_orientations: tuple[int, ...],
    n_blocks: int,
    dtype: np.dtype[np.generic],
) -> FloatArray:
    """Mean moduli under each filter, block by block: steps 4 and 5 of `gist`.

    One filter of one image at a time stays in the cache: groups of either were slower.
    """
    padded = np.pad(w, boundary, mode="symmetric").astype(dtype)
    inside = slice(boundary, boundary + len(w))
    means = _block_means(len(w), n_blocks).astype(dtype)
    spectrum = fft.fft2(padded)
    blocks = []
    for transfer in _transfer_functions(len(padded), n_orientations, dtype):
        # Only the rows inside are needed, so the second pass of the transform skips the others.
        half = fft.ifft(spectrum * transfer, axis=0, overwrite_x=True)[inside]
        modulus = np.abs(fft.ifft(half, axis=1, overwrite_x=True)[:, inside])
        blocks.append((means @ modulus @ means.T).T.ravel())
    return np.concatenate(blocks)


def _block_means(size: int, n_blocks: int) -> FloatArray:
    """Matrix (n_blocks, size) that averages consecutive parts of a vector."""
    means = np.zeros((n_blocks, size))
    for block, (begin, end) in enumerate(
        pairwise(size * k // n_blocks for k in range(n_blocks + 1))
    ):
        means[block, begin:end] = 1.0 / (end - begin)
    return means


@lru_cache(maxsize=2)  # 26 MB at the usual settings
def _transfer_functions(
    n: int, n_orientations: tuple[int, ...], dtype: np.dtype[np.generic]
) -> FloatArray:
    """Compute the filters (sum(n_orientations), n, n) of step 4 of `gist`."""
    columns = fft.fftfreq(n)
    rows = columns[:, np.newaxis]
    radius, angle = np.hypot(rows, columns), np.arctan2(rows, columns)
    filters = np.empty((sum(n_orientations), n, n), dtype)
    exponents = iter(filters)
    for scale, count in enumerate(n_orientations):
        center = _TOP_FREQUENCY / _FREQUENCY_RATIO**scale
        along = _RADIAL_SHARPNESS * (radius / center - 1.0) ** 2
        for j in range(count):
            turned = (angle + np.pi * j / count + np.pi) % (2 * np.pi) - np.pi
            next(exponents)[:] = np.exp(-along - _ANGULAR_SHARPNESS * count**2 * turned**2)
    filters.flags.writeable = False
    return filters
