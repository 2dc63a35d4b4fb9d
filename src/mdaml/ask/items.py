"""Items to compare: a table or a folder, what a page shows of each, and their features."""

import hashlib
import math
import os
import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from mdaml._typing import FloatArray
from mdaml.io.tables import read_table
from mdaml.io.texts import check_suffix, read_texts

# Files that may be sent to a browser, and as what. No SVG and no HTML: these can hold programs.
_TYPES = {
    "image": {
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".gif": "image/gif",
        ".webp": "image/webp",
        ".avif": "image/avif",
        ".bmp": "image/bmp",
    },
    "audio": {
        ".mp3": "audio/mpeg",
        ".wav": "audio/wav",
        ".ogg": "audio/ogg",
        ".m4a": "audio/mp4",
        ".flac": "audio/flac",
    },
    "video": {".mp4": "video/mp4", ".webm": "video/webm"},
}
KINDS = ("text", *_TYPES)
_EMBEDDED = re.compile(r"embed(ding)?s?[ _.-]?\d+", re.IGNORECASE)  # columns of an embedding
_SHOWN_NUMBERS = 8  # of an item that has nothing else to show


class Column(NamedTuple):
    """What is shown of all items: texts, or paths and addresses of files."""

    kind: str  # of KINDS
    cells: Sequence[str]


@dataclass(frozen=True)
class Items:
    """Things to compare.

    Attributes
    ----------
    ids : sequence of str
        Their names, which differ.
    columns : tuple of Column
        What is shown of them; perhaps nothing.
    X : array of shape (n_items, n_features) or None
        Their features.
    features : tuple of str
        Names of the features; empty if they have none.
    folder : Path
        The folder of the files; no file outside it is ever read.
    scale : bool or None
        Whether features are divided by their standard deviations. None: unless they are numbered,
        such as f1, f2, ..., or have no names, as features of a network and of images.
    source : dict or None
        The arguments of :func:`read_items` that read these items again, as JSON; None if they were
        not read from files.
    """

    ids: Sequence[str]
    columns: tuple[Column, ...] = ()
    X: FloatArray | None = None
    features: tuple[str, ...] = ()
    folder: Path = Path()
    scale: bool | None = None
    source: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        """Refuse items that cannot be told apart or shown."""
        if len(self.ids) < 3:
            raise ValueError(f"A comparison needs three items, got {len(self.ids)}.")
        first: dict[str, int] = {}
        for row, name in enumerate(self.ids):
            if not name or len(name) > 500 or "\0" in name:
                raise ValueError(f"Item {row} (from 0): its id must have 1 to 500 letters, no NUL.")
            if first.setdefault(name, row) != row:
                raise ValueError(
                    f"Two items have the id {name!r}. Ids must differ; --id names their column."
                )
        for place, column in enumerate(self.columns):
            if column.kind == "text":
                continue
            for row, cell in enumerate(column.cells):
                if cell and not is_address(cell) and self.find_file(row, place) is None:
                    raise ValueError(f"Item {self.ids[row]!r}: {self._fault(column.kind, cell)}")

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each id."""
        return {name: row for row, name in enumerate(self.ids)}

    @cached_property
    def is_numbered(self) -> bool:
        """Whether the ids are the numbers of the rows."""
        return list(self.ids) == [str(row) for row in range(len(self.ids))]

    @property
    def is_scaled(self) -> bool:
        """Whether features are divided by their standard deviations."""
        if self.scale is not None:
            return self.scale
        stems = {name.rstrip("0123456789") for name in self.features}
        return len(stems) > 1 or (len(stems) == 1 and len(self.features) == 1)

    @cached_property
    def origins(self) -> list[str]:
        """Sites from which files are shown."""
        cells = (cell for c in self.columns if c.kind != "text" for cell in c.cells)
        parts = (urlsplit(cell) for cell in cells if is_address(cell))
        return sorted({f"{part.scheme}://{_to_ascii(part.netloc)}" for part in parts})

    def show(self, row: int) -> dict[str, object]:
        """Return what a page shows of an item, and its name for people who cannot see it."""
        parts: list[dict[str, object]] = []
        for place, (kind, cells) in enumerate(self.columns):
            cell = cells[row]
            if cell and kind == "text":
                parts.append({"kind": kind, "text": cell})
            elif cell:
                url = cell if is_address(cell) else f"media/{row}/{place}?{self.mark(row, place)}"
                parts.append({"kind": kind, "url": url})
        if not parts and self.features and self.X is not None and not self.columns:
            few = list(zip(self.features, self.X[row].tolist(), strict=True))[:_SHOWN_NUMBERS]
            if not self.is_numbered:
                parts.append({"kind": "text", "text": self.ids[row]})
            parts.append({"kind": "numbers", "rows": [[n, f"{value:.4g}"] for n, value in few]})
        return {"name": self.ids[row], "parts": parts or [{"kind": "text", "text": self.ids[row]}]}

    def mark(self, row: int, place: int) -> str:
        """Return letters that differ for other files: browsers keep files by their addresses."""
        found = self.find_file(row, place)
        if found is None:
            return ""
        state = found[0].stat()
        text = f"{state.st_mtime_ns} {state.st_size} {found[0]}"
        return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]

    def content(self, row: int) -> list[object]:
        """Return what tells an item from others: what it shows, and sizes of its files."""
        parts: list[object] = []
        for place, (kind, cells) in enumerate(self.columns):
            found = self.find_file(row, place)
            parts.append([kind, cells[row], found[0].stat().st_size if found else None])
        if not parts and self.X is not None:
            parts.append(self.X[row].tolist())
        return parts

    def find_file(self, row: int, place: int) -> tuple[Path, str] | None:
        """Return the file of an item and its type, if it may be sent.

        Links are followed first: a file that is a link out of the folder is not sent.
        """
        if not (0 <= row < len(self.ids) and 0 <= place < len(self.columns)):
            return None
        kind, cells = self.columns[place]
        cell = cells[row]
        if kind == "text" or not cell or is_address(cell) or "\0" in cell:
            return None
        folder = self.folder.resolve()
        path = (folder / cell).resolve()
        media = _TYPES[kind].get(path.suffix.lower())
        if media is None or not path.is_relative_to(folder) or not path.is_file():
            return None
        return path, media

    def _fault(self, kind: str, cell: str) -> str:
        path = (self.folder / cell).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            return f"{cell} is not in the folder {self.folder}. Name its folder by --folder."
        if path.suffix.lower() not in _TYPES[kind]:
            return f"{cell} is no {kind} file. Known types are {', '.join(_TYPES[kind])}."
        return f"there is no file {self.folder / cell}. Name its folder by --folder."


def is_address(cell: str) -> bool:
    """Say whether a cell is an address in the web."""
    if not cell.startswith(("http://", "https://")):
        return False
    try:
        site = _to_ascii(urlsplit(cell).netloc)
    except ValueError:  # half a bracket, or letters that no host has
        return False
    # Quotes and semicolons would change the policy that the addresses become part of.
    return bool(site) and not set(site) & set(" ;,'\"") and site.isprintable()


def _to_ascii(site: str) -> str:
    """Return the host and port of an address in the letters that headers allow."""
    return site if site.isascii() else site.encode("idna").decode("ascii")


def read_items(
    path: Path,
    *,
    id_column: str | None = None,
    shown: Sequence[tuple[str, str]] | None = (),
    features: Path | None = None,
    folder: Path | None = None,
    scale: bool | None = None,
) -> Items:
    """Read items from a CSV or Parquet file, or take the images of a folder.

    Parameters
    ----------
    path : Path
        Columns of numbers are features, only those of an embedding (embed1, embed2, ...) if there
        is one; others are shown: as images, sounds or films where the cells are names of such
        files, otherwise as texts.
    id_column : str or None
        The column of ids. None: a column id, or the first one of files whose cells differ;
        otherwise rows are numbers.
    shown : sequence of (kind, column) or None
        What to show instead; None for nothing, so that no file is looked for.
    features : Path or None
        Features from another file: NPY, row by row, or a table with the same ids.
    folder : Path or None
        Where files are, if not beside the table.
    scale : bool or None
        As for :class:`Items`.
    """
    source = {
        "path": str(path.resolve()),
        "id_column": id_column,
        "shown": shown,
        "features": features and str(features.resolve()),
        "folder": folder and str(folder.resolve()),
        "scale": scale,
    }
    if path.is_dir():
        from mdaml.features import list_images

        names = [image.relative_to(path).as_posix() for image in list_images(path)]
        columns = {"file": names}
        folder, id_column = path, "file"
    else:
        check_suffix(path, (".csv", ".parquet"))
        columns = _read_columns(path)
        if columns.keys() >= {"a", "b", "c", "who", "question"}:
            raise ValueError(
                f"{path} has the answers of a study, not its items. Give the table of items; "
                "answers that are kept in a database go on with --answers FILE."
            )
    shows_nothing, shown = shown is None, shown or ()
    for name in filter(None, (id_column, *(name for _, name in shown))):
        if name not in columns:
            known = ", ".join(list(columns)[:10])
            raise ValueError(f"{path}: there is no column {name!r}. Its columns are {known}.")
    id_column = id_column or _find_ids(columns, shown)
    n_items = len(next(iter(columns.values())))
    ids = columns[id_column] if id_column else [str(row) for row in range(n_items)]
    used = {id_column, *(name for _, name in shown)}
    embedded = {name for name in columns if _EMBEDDED.fullmatch(name)}
    numbers = {
        name: x
        for name, cells in columns.items()
        if not embedded or name in embedded
        if (x := _to_numbers(path, name, cells, used))
    }
    if not shown and not shows_nothing:
        free = [n for n in columns if n not in numbers and (n != id_column or _guess(columns[n]))]
        shown = [(_guess(columns[n]) or "text", n) for n in free]
    X, feature_names = _take_features(features, ids, numbers)
    made = tuple(Column(kind, columns[name]) for kind, name in shown)
    return Items(ids, made, X, feature_names, folder or path.parent, scale, source)


def read_again(source: dict[str, Any]) -> Items:
    """Read items as they were read before."""
    paths = {name: Path(source[name]) for name in ("path", "features", "folder") if source[name]}
    for path in paths.values():
        if not path.exists():
            raise ValueError(f"there is no {path} any more.")
    shown = source["shown"] and [(kind, name) for kind, name in source["shown"]]
    return read_items(**source | paths | {"shown": shown})


def _read_columns(path: Path) -> dict[str, list[str]]:
    blocks = read_texts(path)
    _, header = next(blocks)
    names = [cells[0].strip() for cells in header]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path}: the column {twice!r} is there twice. Rename one.")
    columns: dict[str, list[str]] = {name: [] for name in names}
    for lines, cells in blocks:
        if len(cells) != len(names):
            raise ValueError(f"{path}:{lines[0]}: {len(cells)} cells, but {len(names)} are wanted.")
        for name, column in zip(names, cells, strict=True):
            columns[name] += map(str.strip, column)
    if not columns[names[0]]:
        raise ValueError(f"{path}: there is a header, but no row under it.")
    return columns


def _find_ids(columns: dict[str, list[str]], shown: Sequence[tuple[str, str]]) -> str | None:
    called = next((name for name in columns if name.lower() == "id"), None)
    files = [name for kind, name in shown if kind != "text"] or [
        n for n in columns if _guess(columns[n])
    ]
    distinct = (name for name in files if len(set(columns[name])) == len(columns[name]))
    return called or next(distinct, None)


def _guess(cells: Sequence[str]) -> str | None:
    """Return the kind of files that cells name, if all cells name such files."""
    for kind, types in _TYPES.items():
        if all(Path(urlsplit(c).path).suffix.lower() in types for c in cells if c) and any(cells):
            return kind
    return None


def _to_numbers(path: Path, name: str, cells: Sequence[str], used: set[str | None]) -> list[float]:
    """Return a column as numbers; empty if it is not a column of numbers."""
    if name in used or not _is_number(next(filter(None, cells), "")):
        return []
    wrong = [row for row, cell in enumerate(cells) if not _is_number(cell)]
    if 2 * len(wrong) > len(cells):
        return []
    if wrong:
        row = wrong[0]
        raise ValueError(
            f"{path}: row {row} (from 0): column {name!r} holds {cells[row]!r}, not a finite "
            f"number. Correct it, or pass --text {name} if these are not features."
        )
    return [float(cell) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _take_features(
    path: Path | None, ids: Sequence[str], numbers: dict[str, list[float]]
) -> tuple[FloatArray | None, tuple[str, ...]]:
    if path is None:
        X = np.array(list(numbers.values())).T if numbers else None
        return X, tuple(numbers)
    if path.suffix.lower() == ".npy":
        table = read_table(path)
        if len(table.X) != len(ids):
            raise ValueError(f"{path} has {len(table.X)} rows, but there are {len(ids)} items.")
        return np.asarray(table.X, float), ()
    columns = _read_columns(path)
    known = [n for n, cells in columns.items() if set(ids) <= set(cells)]
    if not known:
        raise ValueError(f"{path}: no column holds the ids of the items, such as {ids[0]!r}.")
    table = read_table(path, id_column=known[0])
    return table.X[table.find_rows(list(ids))], table.features


def write_demo(folder: Path) -> Path:
    """Write a table of colours with their pictures, and return its path."""
    levels = (0, 64, 128, 192, 255)
    rng = np.random.default_rng(0)
    colours = [(r, g, b) for r in levels for g in levels for b in levels]
    chosen = [colours[k] for k in rng.permutation(len(colours))[:60]]
    lines = ["id,picture,red,green,blue"]
    for r, g, b in chosen:
        name = f"{r:02x}{g:02x}{b:02x}"
        (folder / f"{name}.png").write_bytes(_make_png(bytes((r, g, b))))
        lines.append(f"#{name},{name}.png,{r},{g},{b}")
    table = folder / "items.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return table


def _make_png(colour: bytes, size: int = 96) -> bytes:
    """Return a picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + colour * size) * size)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts
