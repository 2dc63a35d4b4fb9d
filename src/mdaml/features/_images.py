"""Read images (files, folders, arrays, Pillow images) and compute a row of features for each."""

import os
import struct
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import joblib
import numpy as np
import numpy.typing as npt

from mdaml._typing import FloatArray

if TYPE_CHECKING:
    from PIL.Image import Image

# A folder, a stack of arrays, or an iterable of paths, arrays and Pillow images.
Images: TypeAlias = str | os.PathLike[str] | npt.NDArray[np.generic] | Iterable[object]
Pixels: TypeAlias = npt.NDArray[np.number]  # (H, W) or (H, W, 3), with values from 0 to FULL_SCALE

# The value of white; floating point images go up to 1.
FULL_SCALE = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65535}

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")

_EXTRA = "pip install 'mdaml[images]'"
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def list_images(folder: str | os.PathLike[str], *, recursive: bool = False) -> list[Path]:
    """List the image files of a folder in the order in which `gist` and `lab_histogram` read it.

    Parameters
    ----------
    folder : str or path
        An existing folder.
    recursive : bool, default=False
        Also list the images of all subfolders.

    Returns
    -------
    list of Path
        The files named ``*.bmp``, ``.gif``, ``.jpeg``, ``.jpg``, ``.pgm``, ``.png``, ``.ppm``,
        ``.tif``, ``.tiff`` or ``.webp``, in upper or lower case, sorted by their path below
        `folder`. Files and folders whose name begins with a dot are left out.

    Raises
    ------
    ValueError
        If there is no such folder, or no image in it.

    See Also
    --------
    gist : Describes images.
    lab_histogram : Describes their colours.

    Examples
    --------
    >>> from mdaml.features import list_images
    >>> list_images("holidays")
    Traceback (most recent call last):
    ValueError: There is no folder 'holidays'.
    """
    folder = Path(folder)
    if folder.is_file():
        raise ValueError(f"{str(folder)!r} is a file; pass a folder, or a list of files.")
    if not folder.is_dir():
        raise ValueError(f"There is no folder {str(folder)!r}.")
    found = [
        path
        for path in folder.glob("**/*" if recursive else "*")
        if path.suffix.lower() in SUFFIXES and path.is_file() and not _is_hidden(path, folder)
    ]
    if not found:
        below = "or below it" if recursive else "itself; recursive=True looks into its folders too"
        raise ValueError(f"No image in {str(folder)!r} {below}. Images: {', '.join(SUFFIXES)}.")
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def describe(
    images: Images,
    features: Callable[[Pixels], FloatArray],
    *,
    n_jobs: int | None,
    callback: Callable[[int], object] | None,
) -> FloatArray:
    """Return the features of all images, one row each; `callback` gets the number done."""
    rows: list[FloatArray] = []
    numbered = enumerate(_check_images(images))

    def describe_one(item: tuple[int, object]) -> FloatArray:
        return features(_pixels(item[1], f"images[{item[0]}]"))

    for row in in_order(describe_one, numbered, n_jobs):
        rows.append(row)
        if callback is not None:
            callback(len(rows))
    if not rows:
        raise ValueError("images is empty: pass at least one image.")
    return np.stack(rows)


def unreadable(
    paths: Iterable[Path],
    *,
    n_jobs: int | None = None,
    callback: Callable[[int], object] | None = None,
) -> dict[Path, str]:
    """Return, by path, the reason why a file cannot be read. Each file is decoded to its end.

    This takes a few hundredths of the time of GIST.
    """
    paths, reasons = list(paths), {}
    for n_done, reason in enumerate(in_order(_reading_error, paths, n_jobs), 1):
        if reason is not None:
            reasons[paths[n_done - 1]] = reason
        if callback is not None:
            callback(n_done)
    return reasons


def in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], n_jobs: int | None
) -> Iterator[_Result]:
    """Map in threads and yield the results in order, reading at most ``2 * n_threads`` ahead.

    ``joblib.Parallel(return_as="generator")`` reads on while results wait to be taken: of small
    images it had read 16 ahead where this function reads 4, and of photographs 6.
    """
    n_threads = _n_threads(n_jobs)
    if n_threads == 1:
        yield from map(function, items)
        return
    pool = ThreadPoolExecutor(n_threads, "mdaml-features")
    pending: deque[Future[_Result]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > 2 * n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def missing_extra(purpose: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that says how to install a missing package of the extra."""
    return ModuleNotFoundError(f"{purpose} needs the images extra: {_EXTRA}", name=error.name)


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _n_threads(n_jobs: int | None) -> int:
    if n_jobs == -1:
        return int(joblib.cpu_count())
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise ValueError(f"n_jobs must be a number of threads, -1 or None, got {n_jobs!r}.")
    return int(n_jobs)


def _check_images(images: Images) -> Iterable[object]:
    """Return the images; a single image is refused, because its rows would be taken for images."""
    if isinstance(images, str | os.PathLike):
        return list_images(images)
    if isinstance(images, np.ndarray):
        is_single = images.ndim < 3 or (images.ndim == 3 and images.shape[-1] in (3, 4))
    else:
        is_single = not isinstance(images, Iterable)
    if is_single:
        got = f"shape {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
        raise TypeError(
            "images must be a folder or an iterable of paths, arrays and Pillow images, got "
            f"{got}. A single image goes in a list: [image]."
        )
    return images


def _reading_error(path: Path) -> str | None:
    try:
        _read(path)
    except ValueError as error:
        return str(error)
    return None


def _pixels(image: object, name: str) -> Pixels:
    if isinstance(image, str | os.PathLike):
        return _read(Path(image))
    if isinstance(image, np.ndarray):
        return _check_pixels(image, name)
    # If Pillow was not imported, this is no Pillow image.
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(image, pillow.Image):
        return _check_pixels(_from_pillow(image), name)
    raise TypeError(
        f"{name} must be a path, an array or a Pillow image, got {type(image).__name__}."
    )


# What Pillow's decoders raise on damaged files, SyntaxError among them.
_DECODING_ERRORS = (
    *(OSError, EOFError, SyntaxError, ValueError, TypeError, LookupError, OverflowError),
    *(NotImplementedError, MemoryError, struct.error, zlib.error),
)


def _read(path: Path) -> Pixels:
    """Decode the first image of a file, rotated as an image viewer would show it."""
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise missing_extra("Reading image files", error) from None
    try:
        with Image.open(path) as image:
            pixels = _from_pillow(image)
    except (*_DECODING_ERRORS, Image.DecompressionBombError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ValueError(f"Cannot read the image {str(path)!r}: {reason}.") from error
    return _check_pixels(pixels, repr(str(path)))


def _from_pillow(image: "Image") -> Pixels:
    """Return the pixels of a Pillow image: grey as (H, W), others as RGB, without transparency."""
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode in ("1", "LA", "La"):
        image = image.convert("L")
    elif image.mode in ("P", "PA"):
        # Through RGBA, because Pillow warns when it drops the transparency of a palette.
        image = image.convert("RGBA").convert("RGB")
    elif image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    elif image.mode not in ("L", "RGB", "I", "F"):
        image = image.convert("RGB")
    return np.asarray(image)


def _check_pixels(pixels: Pixels, name: str) -> Pixels:
    if pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (3,)) or pixels.size == 0:
        hint = " Leave out the transparency: image[..., :3]." if pixels.shape[2:] == (4,) else ""
        raise ValueError(f"{name} must have shape (H, W) or (H, W, 3), got {pixels.shape}.{hint}")
    if np.issubdtype(pixels.dtype, np.floating):
        if not (pixels.min() >= 0 and pixels.max() <= 1):  # so that NaN fails too
            raise ValueError(
                f"{name} has values from {pixels.min():g} to {pixels.max():g}, but floating point "
                "images go from 0 to 1. Divide by the value of white, or pass uint8."
            )
    elif pixels.dtype not in FULL_SCALE:
        raise ValueError(
            f"{name} must be uint8, uint16, or floating point from 0 to 1, got {pixels.dtype}."
        )
    return pixels
