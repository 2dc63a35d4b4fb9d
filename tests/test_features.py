"""Images to features: GIST against known numbers and against loops, Lab colours, the command."""

import cmath
import csv
import gzip
import io
import math
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from rich.console import Console
from skimage.color import rgb2lab
from suite.needs import skip_without
from typer.testing import CliRunner

import mdaml.cli.features as command
from mdaml.cli import build_app, main
from mdaml.features import gist, lab_histogram, list_images

QUICK = {"size": 16, "boundary": 4, "n_orientations": (3, 2), "n_blocks": 2}


@pytest.fixture
def noise():
    return np.random.default_rng(0).integers(0, 256, (20, 30, 3)).astype(np.uint8)


@pytest.fixture
def folder(tmp_path, noise):
    """Three images, in names whose order is not that of the alphabet, and things that are none."""
    root = tmp_path / "images"
    (root / "deep" / ".hidden").mkdir(parents=True)
    (root / "folder.png").mkdir()
    (root / "notes.txt").write_text("no image")
    for name in ("b.png", "A.PNG", "deep/c.png", ".d.png", "deep/.hidden/e.png"):
        Image.fromarray(np.roll(noise, len(name), axis=0)).save(root / name)
    return root


@pytest.fixture
def run():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(build_app(), [str(word) for word in arguments])


# GIST, step by step and in loops -----------------------------------------------------------------


def literal_gist(grey, size, crop, stretch, cutoff, boundary, n_orientations, n_blocks):
    """The steps of the docstring for one image of grey values; shares no code with the library."""
    square = literal_square(grey, size, crop)
    if stretch:
        low, high = min(map(min, square)), max(map(max, square))
        square = [[255 * (value - low) / (high - low) for value in row] for row in square]
    w = mirrored(literal_prefilter(square, cutoff), boundary)
    n = size + 2 * boundary
    features = []
    for scale, m in enumerate(n_orientations):
        for j in range(m):
            transfer = [
                [literal_transfer(signed(k, n), signed(h, n), n, scale, j, m) for h in range(n)]
                for k in range(n)
            ]
            modulus = np.abs(filtered(w, transfer))
            features += literal_blocks(modulus, boundary, size, n_blocks)
    return features


def literal_square(grey, size, crop):
    scales = [size / len(grey), size / len(grey[0])]
    lengths = [size, size]
    if crop:
        lengths = [math.floor(n * max(scales) + 0.5) for n in (len(grey), len(grey[0]))]
    halfway = [literal_scaled(row, lengths[1]) for row in grey]
    whole = np.transpose(
        [literal_scaled(column, lengths[0]) for column in zip(*halfway, strict=True)]
    )
    top, left = ((n - size) // 2 for n in lengths)
    return [row[left : left + size] for row in whole.tolist()[top : top + size]]


def literal_scaled(values, n_out):
    """Mean of the pixels under a triangle around the place of each new pixel."""
    step = len(values) / n_out
    new = []
    for i in range(n_out):
        total = weight = 0.0
        for x, value in enumerate(values):
            share = max(0.0, 1 - abs(x + 0.5 - (i + 0.5) * step) / max(step, 1.0))
            total, weight = total + share * value, weight + share
        new.append(total / weight)
    return new


def literal_prefilter(square, cutoff):
    u = mirrored(np.log(np.array(square) + 1), 5)
    n = len(u)
    low_pass = [
        [
            math.exp(-math.log(2) * (signed(k, n) ** 2 + signed(h, n) ** 2) / cutoff**2)
            for h in range(n)
        ]
        for k in range(n)
    ]
    v = u - filtered(u, low_pass).real
    w = v / (0.2 + np.sqrt(np.abs(filtered(v**2, low_pass))))
    return w[5 : n - 5, 5 : n - 5]


def literal_transfer(row, column, n, scale, j, m):
    frequency = 0.3 / 1.85**scale
    turned = cmath.phase(complex(column, row)) + math.pi * j / m
    if turned > math.pi:
        turned -= 2 * math.pi
    radius = math.sqrt(row**2 + column**2) / n
    return math.exp(
        -10 * 0.35 * (radius / frequency - 1) ** 2 - 2 * (16 * m**2 / 32**2) * math.pi * turned**2
    )


def literal_blocks(modulus, boundary, size, n_blocks):
    edges = [math.floor(k * size / n_blocks) for k in range(n_blocks + 1)]
    means = []
    for column in range(n_blocks):
        for row in range(n_blocks):
            values = [
                modulus[boundary + y][boundary + x]
                for y in range(edges[row], edges[row + 1])
                for x in range(edges[column], edges[column + 1])
            ]
            means.append(sum(values) / len(values))
    return means


def signed(k, n):
    """The frequency at place k of a transform of length n."""
    return k if k < n / 2 else k - n


def mirrored(image, width):
    n = len(image)
    places = [*range(width - 1, -1, -1), *range(n), *range(n - 1, n - 1 - width, -1)]
    return np.array([[image[y][x] for x in places] for y in places])


def filtered(image, transfer):
    """Apply a transfer function by the sums that define the Fourier transform."""
    n = len(image)
    wave = np.array([[cmath.exp(2j * math.pi * k * x / n) for x in range(n)] for k in range(n)])
    return wave @ (np.array(transfer) * (wave.conj() @ image @ wave.conj())) @ wave / n**2


@pytest.mark.parametrize("shape", [(20, 30), (31, 12), (7, 7), (16, 16)])
@pytest.mark.parametrize("crop", [True, False])
def test_gist_is_what_the_loops_say(shape, crop):
    image = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    options = {
        "size": 16,
        "crop": crop,
        "stretch": crop,
        "cutoff": 3.0,
        "boundary": 3 if crop else 0,
        "n_orientations": (3, 2),
        "n_blocks": 3,  # blocks of 5, 5 and 6 pixels
    }
    expected = literal_gist(image.tolist(), **options)
    np.testing.assert_allclose(gist([image], **options)[0], expected, rtol=1e-10)


# Known numbers -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample():
    """Eleven photographs of Caltech-101 and their rows of the table, of six digits."""
    skip_without(["MDAML_DATA"])
    data = Path(os.environ["MDAML_DATA"])
    index = data / "caltech_sample" / "index.csv"
    with index.open(newline="") as lines:
        rows = {int(row["caltech20_row"]): row["file"] for row in csv.DictReader(lines)}
    with gzip.open(data / "caltech20.csv.gz", "rt") as lines:
        next(lines)
        values = {i: line.split(",")[:-1] for i, line in enumerate(lines) if i in rows}
    paths = [index.parent / name for name in rows.values()]
    return paths, np.array([values[i] for i in rows], dtype=float)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gist_of_caltech_images_is_that_of_the_table(sample, dtype):
    paths, expected = sample
    np.testing.assert_allclose(gist(paths, dtype=dtype), expected, rtol=1e-5)


# Facts about GIST --------------------------------------------------------------------------------


def stripes(frequency, size=256):
    """Vertical stripes, of `frequency` cycles per pixel."""
    return np.tile(0.5 + 0.5 * np.sin(2 * np.pi * frequency * np.arange(size)), (size, 1))


@pytest.mark.parametrize("scale", range(4))
def test_stripes_excite_the_filter_of_their_scale_and_orientation(scale):
    image = stripes(0.3 / 1.85**scale)
    energies = gist([image, image.T]).reshape(2, 32, 16).mean(axis=2)
    assert energies.argmax(axis=1).tolist() == [8 * scale, 8 * scale + 4]


def test_falling_diagonals_come_between_the_vertical_and_the_horizontal():
    y, x = np.mgrid[:64, :64]
    image = 0.5 + 0.5 * np.sin(2 * np.pi * 0.3 / 1.85 * (x - y) / np.sqrt(2))
    energies = gist([image, image[::-1]], size=64).reshape(2, 4, 8, 16).mean(axis=3)
    assert energies[:, 1].argmax(axis=1).tolist() == [2, 6]


def test_blocks_are_read_column_by_column(noise):
    image = np.full((64, 64), 128, np.uint8)
    image[16:32, 48:] = noise[:16, :16, 0]  # second block of the last column
    features = gist([image], size=64, boundary=8).reshape(32, 16)
    assert features.mean(axis=0).argmax() == 13


def test_default_gist_has_512_values(noise):
    features = gist([noise, noise[:, ::-1]])
    assert features.shape == (2, 512)
    assert features.dtype == np.float64
    assert (features > 0).all()


@pytest.mark.parametrize("value", [0, 77, 255])
def test_uniform_image_has_no_gist(value):
    image = np.full((40, 50, 3), value, np.uint8)
    assert not gist([image], **QUICK).any()
    assert gist([image], stretch=False, **QUICK).max() < 1e-12


def test_stretched_gist_does_not_see_brightness_and_contrast(noise):
    image = noise / 255.0
    np.testing.assert_allclose(gist([0.3 + 0.4 * image], **QUICK), gist([image], **QUICK))
    assert not np.allclose(
        gist([0.3 + 0.4 * image], stretch=False, **QUICK), gist([image], stretch=False, **QUICK)
    )


@pytest.mark.parametrize("features", [lambda images: gist(images, **QUICK), lab_histogram])
def test_all_forms_of_an_image_give_the_same(features, noise, tmp_path):
    path = tmp_path / "noise.png"
    Image.fromarray(noise).save(path)
    forms = [
        path,
        str(path),
        Image.fromarray(noise),
        noise / 255.0,
        noise.astype(np.uint16) * 257,
        np.asfortranarray(noise),
    ]
    for row in features(forms):
        np.testing.assert_allclose(row, features([noise])[0], rtol=1e-9)


@pytest.mark.parametrize("features", [lambda images: gist(images, **QUICK), lab_histogram])
def test_a_grey_image_is_a_colour_image_with_equal_channels(features, noise):
    grey = noise[..., 0]
    np.testing.assert_allclose(*features([grey, np.dstack([grey, grey, grey])]), rtol=1e-12)


def test_threads_iterators_and_stacks_change_nothing(noise):
    images = np.stack([np.roll(noise, i, axis=1) for i in range(9)])
    expected = gist(list(images), **QUICK)
    for given in (images, iter(images), (image for image in images)):
        np.testing.assert_array_equal(gist(given, n_jobs=3, **QUICK), expected)
    np.testing.assert_array_equal(gist(images, n_jobs=-1, **QUICK), expected)
    np.testing.assert_array_equal(gist(images[3:4], **QUICK)[0], expected[3])


def test_an_iterator_is_not_read_far_ahead(noise):
    n_read = n_done = 0
    ahead = []

    def images():
        nonlocal n_read
        for _ in range(40):
            n_read += 1
            yield noise

    def count(done):
        nonlocal n_done
        n_done = done
        ahead.append(n_read - done)

    gist(images(), n_jobs=2, callback=count, **QUICK)
    assert n_done == 40
    assert max(ahead) <= 5


def test_no_thread_survives_an_error(noise):
    with pytest.raises(ValueError, match=r"images\[3\]"):
        gist([noise, noise, noise, noise[0, 0], noise], n_jobs=2, **QUICK)
    assert not [t for t in threading.enumerate() if t.name.startswith("mdaml-features")]


@pytest.mark.parametrize("features", [lambda *a, **k: gist(*a, **QUICK, **k), lab_histogram])
def test_callback_counts_the_images(features, noise):
    counts = []
    features([noise] * 3, callback=counts.append)
    assert counts == [1, 2, 3]


def test_the_settings_of_osr_need_no_other_arithmetic(noise):
    options = {"size": 128, "stretch": False, "boundary": 0}
    square = noise[:16, :16]
    squeezed, cropped = gist([square], crop=False, **options), gist([square], **options)
    assert squeezed.shape == (1, 512)
    np.testing.assert_array_equal(squeezed, cropped)  # there is nothing to cut


# Lab colours -------------------------------------------------------------------------------------


def test_lab_histogram_is_what_the_loop_says(noise):
    ranges = ((0, 100), (-90, 100), (-110, 100))
    expected = np.zeros((3, 10))
    for pixel in rgb2lab(noise).reshape(-1, 3):
        for channel, (low, high) in enumerate(ranges):
            for k in range(10):
                left, right = (low + (high - low) * i / 10 for i in (k, k + 1))
                expected[channel, k] += left <= pixel[channel] < right
    np.testing.assert_allclose(
        lab_histogram([noise])[0], expected.ravel() / (3 * 20 * 30), rtol=1e-12
    )


def test_lab_histogram_sums_to_one_with_any_bins(noise):
    rows = lab_histogram([noise, noise[..., 1]], n_bins=7, ranges=[(20, 30), (-1, 1), (0, 9)])
    assert rows.shape == (2, 21)
    np.testing.assert_allclose(rows.reshape(2, 3, 7).sum(axis=2), 1 / 3)


def test_default_ranges_hold_all_colours():
    corners = np.array(np.meshgrid(*[np.linspace(0, 1, 18)] * 3)).reshape(3, -1).T
    lab = rgb2lab(corners)
    for channel, (low, high) in enumerate(((0, 100), (-90, 100), (-110, 100))):
        assert low - 1e-9 <= lab[:, channel].min()
        assert lab[:, channel].max() <= high + 1e-9


def test_every_grey_has_the_same_colour_bins():
    greys = np.arange(256, dtype=np.uint8).reshape(256, 1, 1)
    assert len(np.unique(lab_histogram(greys)[:, 10:], axis=0)) == 1


def test_large_images_are_counted_in_parts(monkeypatch, noise):
    expected = lab_histogram([noise])
    monkeypatch.setattr("mdaml.features._color._BLOCK", 7)
    np.testing.assert_array_equal(lab_histogram([noise]), expected)


# Files -------------------------------------------------------------------------------------------


def names(paths, folder):
    return [path.relative_to(folder).as_posix() for path in paths]


def test_images_of_a_folder_are_listed_in_order(folder):
    assert names(list_images(folder), folder) == ["A.PNG", "b.png"]
    assert names(list_images(str(folder), recursive=True), folder) == [
        "A.PNG",
        "b.png",
        "deep/c.png",
    ]


def test_a_folder_is_the_list_of_its_images(folder):
    np.testing.assert_array_equal(gist(folder, **QUICK), gist(list_images(folder), **QUICK))
    np.testing.assert_array_equal(lab_histogram(str(folder)), lab_histogram(list_images(folder)))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "I;16"])
def test_every_usual_mode_is_read(mode, noise):
    image = Image.fromarray(noise)
    if mode == "I;16":
        image = Image.fromarray(noise[..., 0].astype(np.uint16) * 257)
    elif mode in ("LA", "RGBA"):
        image.putalpha(128)
    grey = mode in ("1", "L", "LA", "I;16")
    image = image.convert(mode)
    if mode == "P":
        image.info["transparency"] = bytes(range(256))
    plain = (
        np.asarray(image.convert("L")) if grey else np.asarray(image.convert("RGBA").convert("RGB"))
    )
    if mode == "I;16":
        plain = noise[..., 0]
    np.testing.assert_allclose(gist([image], **QUICK), gist([plain], **QUICK))


def test_files_are_turned_as_a_viewer_would(noise, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    Image.fromarray(noise).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_allclose(
        gist(tmp_path, **QUICK), gist([np.rot90(noise, -1)], **QUICK), rtol=1e-12
    )


# Errors ------------------------------------------------------------------------------------------


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"There is no folder '.*nowhere'\.$"):
        gist(tmp_path / "nowhere")


def test_file_instead_of_folder_is_refused(folder):
    with pytest.raises(ValueError, match=r"b\.png' is a file; pass a folder, or a list of files"):
        gist(folder / "b.png")


@pytest.mark.parametrize(
    ("recursive", "hint"), [(False, "itself; recursive=True looks"), (True, "or below it. Images:")]
)
def test_folder_without_images_is_refused(tmp_path, recursive, hint):
    with pytest.raises(ValueError, match=f"No image in .* {hint}"):
        list_images(tmp_path, recursive=recursive)


@pytest.mark.parametrize("content", [b"", b"no image", None])
def test_unreadable_file_is_named(folder, content):
    broken = folder / "broken.png"
    broken.write_bytes((folder / "b.png").read_bytes()[:700] if content is None else content)
    with pytest.raises(ValueError, match=r"Cannot read the image '.*broken\.png': .+\.$"):
        gist(folder, **QUICK)


def test_absent_file_is_named():
    with pytest.raises(ValueError, match=r"Cannot read the image 'nothing\.png': No such file"):
        lab_histogram(["nothing.png"])


@pytest.mark.parametrize("shape", [(4,), (4, 4, 4), (4, 4, 1), (0, 4), (2, 2, 2, 3)])
def test_wrong_shape_is_refused(shape):
    with pytest.raises(ValueError, match=r"images\[0\] must have shape \(H, W\) or \(H, W, 3\)"):
        gist([np.zeros(shape)])


@pytest.mark.parametrize("value", [-0.1, 1.5, np.nan])
def test_floats_beyond_white_are_refused(value):
    with pytest.raises(ValueError, match="floating point images go from 0 to 1"):
        gist([np.full((4, 4), value)])


@pytest.mark.parametrize("dtype", [np.int64, bool, np.complex128])
def test_other_types_of_number_are_refused(dtype):
    with pytest.raises(ValueError, match="must be uint8, uint16, or floating point"):
        lab_histogram([np.zeros((4, 4), dtype)])


@pytest.mark.parametrize(
    "image", [np.zeros((8, 8)), np.zeros((8, 8, 3)), Image.new("RGB", (8, 8)), None, 3]
)
def test_a_single_image_is_not_a_list_of_images(image):
    with pytest.raises(TypeError, match=r"A single image goes in a list: \[image\]"):
        gist(image)


def test_things_that_are_no_image_are_refused():
    with pytest.raises(TypeError, match=r"images\[1\] must be a path, an array .*, got list"):
        gist([np.zeros((8, 8)), [[0.0]]], **QUICK)


def test_no_images_at_all_are_refused():
    with pytest.raises(ValueError, match="images is empty"):
        lab_histogram([])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size must be an integer of at least 2, got 0"),
        ({"size": 15}, "size must be even, got 15"),
        ({"size": 2.0}, "size must be an integer"),
        ({"boundary": -1}, "boundary must be an integer of at least 0"),
        ({"n_blocks": 0}, "n_blocks must be an integer of at least 1"),
        ({"size": 4, "n_blocks": 5}, "n_blocks must be at most size=4, got 5"),
        ({"n_orientations": ()}, "n_orientations must have a number"),
        ({"n_orientations": (8, 0)}, "n_orientations must be an integer of at least 1"),
        ({"cutoff": 0}, "cutoff must be a finite number greater than 0"),
        ({"cutoff": "4"}, "cutoff must be a finite number greater than 0"),
        ({"dtype": "float16"}, "dtype must be float64 or float32, got float16"),
        ({"n_jobs": 0}, "n_jobs must be a number of threads, -1 or None, got 0"),
    ],
)
def test_gist_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        gist([np.zeros((8, 8))], **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_bins": 0}, "n_bins must be an integer of at least 1"),
        ({"ranges": [(0, 100)]}, "ranges must be three pairs"),
        ({"ranges": [(0, 100), (5, 5), (0, 1)]}, "with low < high"),
    ],
)
def test_lab_histogram_refuses_options_out_of_range(options, message):
    with pytest.raises(ValueError, match=message):
        lab_histogram([np.zeros((8, 8))], **options)


def forget(monkeypatch, package):
    """Make importing `package` fail, whether or not it is installed."""
    for name in list(sys.modules):
        if name.partition(".")[0] == package or name.startswith("mdaml.cli."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


def test_files_without_the_extra_say_how_to_get_it(monkeypatch, folder):
    forget(monkeypatch, "PIL")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'mdaml\[images\]'$"):
        gist(folder)


def test_lab_colours_without_the_extra_say_how_to_get_it(monkeypatch, noise):
    forget(monkeypatch, "skimage")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'mdaml\[images\]'$"):
        lab_histogram([noise])


def test_gist_of_arrays_needs_no_extra(monkeypatch, noise):
    for package in ("PIL", "skimage"):
        forget(monkeypatch, package)
    assert gist([noise], **QUICK).shape == (1, 20)


# The command -------------------------------------------------------------------------------------


@pytest.mark.needs("pyarrow")
@pytest.mark.parametrize(
    ("kind", "n_features"), [("gist", 512), ("lab", 30), ("both", 542), (None, 512)]
)
def test_command_writes_a_table(run, folder, tmp_path, kind, n_features):
    out = tmp_path / "table.parquet"
    result = run("features", folder, "--out", out, *(["--kind", kind] if kind else []))
    assert result.exit_code == 0, result.output
    assert result.output == f"2 images, {n_features} features each: {out.resolve()}\n"
    table = pd.read_parquet(out)
    assert list(table.columns) == ["file", *(f"f{i}" for i in range(1, n_features + 1))]
    assert table["file"].tolist() == ["A.PNG", "b.png"]
    parts = {"gist": [gist], "lab": [lab_histogram], "both": [gist, lab_histogram], None: [gist]}
    np.testing.assert_array_equal(
        table.iloc[:, 1:], np.hstack([function(folder) for function in parts[kind]])
    )


def test_command_writes_csv_of_all_folders(run, folder, tmp_path):
    out = tmp_path / "table.csv"
    assert run("features", folder, "--out", out, "--recursive", "--kind", "lab").exit_code == 0
    table = pd.read_csv(out)
    assert table["file"].tolist() == ["A.PNG", "b.png", "deep/c.png"]
    expected = lab_histogram(list_images(folder, recursive=True))
    np.testing.assert_allclose(table.iloc[:, 1:], expected, rtol=1e-12)


def fail_computing(monkeypatch, error):
    def compute(*_):
        raise error

    monkeypatch.setattr(command, "_compute", compute)


def test_command_names_all_unreadable_files_before_the_work(run, monkeypatch, folder, tmp_path):
    fail_computing(monkeypatch, AssertionError("work was done"))
    for name in ("aa.jpg", "z.gif"):
        (folder / name).write_bytes(b"broken")
    result = run("features", folder, "--out", tmp_path / "a.csv")
    assert result.exit_code == 1
    *reasons, summary = result.output.splitlines()
    assert all(name in line for name, line in zip(("aa.jpg", "z.gif"), reasons, strict=True))
    assert summary == (
        "2 of 4 images cannot be read: no table was written. --skip-unreadable leaves them out."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["images"]


def test_command_leaves_unreadable_files_out_on_request(run, folder, tmp_path):
    (folder / "aa.jpg").write_bytes(b"broken")
    out = tmp_path / "a.csv"
    result = run("features", folder, "--out", out, "--kind", "lab", "--skip-unreadable")
    assert result.exit_code == 0
    assert "aa.jpg" in result.output
    assert "1 of 3 images left out." in result.output
    assert pd.read_csv(out)["file"].tolist() == ["A.PNG", "b.png"]


def test_command_needs_one_readable_file(run, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"broken")
    result = run("features", tmp_path, "--out", tmp_path / "a.csv", "--skip-unreadable")
    assert result.exit_code == 1
    assert result.output.endswith("1 of 1 images cannot be read: no table was written.\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [("nowhere", "There is no folder"), ("images/deep/.hidden/none", "There is no folder")],
)
def test_command_refuses_a_missing_folder(run, tmp_path, name, message):
    result = run("features", tmp_path / name, "--out", tmp_path / "a.csv")
    assert result.exit_code == 2
    assert result.output.startswith(message)
    assert not list(tmp_path.iterdir())


def test_command_speaks_of_its_own_option_when_there_is_no_image(run, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run("features", tmp_path / "empty", "--out", tmp_path / "a.csv")
    assert result.exit_code == 2
    assert "--recursive looks into its folders too" in result.output


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/a.csv", "there is no folder {}/missing. Create it first"),
        ("folder.csv", "this is a folder"),
        ("a.png", "the name must end in .parquet or .csv"),
    ],
)
def test_command_refuses_an_unwritable_place(run, monkeypatch, folder, tmp_path, name, reason):
    monkeypatch.setattr(command, "_listed", lambda *_: pytest.fail("work was done"))
    (tmp_path / "folder.csv").mkdir()
    result = run("features", folder, "--out", tmp_path / name)
    assert result.exit_code == 2
    reason = reason.format(tmp_path.resolve())
    assert result.output == f"--out: cannot write {(tmp_path / name).resolve()}: {reason}.\n"


@pytest.mark.parametrize("step", ["_compute", "_write"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broken")])
def test_old_table_survives_a_failure(run, monkeypatch, folder, tmp_path, step, error):
    def fail(path, *_, **__):
        if step == "_write":
            path.write_text("half a table")
        raise error

    monkeypatch.setattr(command, step, fail)
    out = tmp_path / "table.csv"
    out.write_text("old")
    result = run("features", folder, "--out", out, "--kind", "lab")
    if isinstance(error, KeyboardInterrupt):
        assert result.exit_code == 130
        assert result.output == "Interrupted: no table was written.\n"
    else:
        assert result.exit_code == 1
        assert "RuntimeError: broken" in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "table.csv"]
    assert out.read_text() == "old"


def test_old_table_is_replaced_by_the_new(run, folder, tmp_path):
    out = tmp_path / "table.csv"
    out.write_text("old")
    assert run("features", folder, "--out", out, "--kind", "lab").exit_code == 0
    assert out.read_text().startswith("file,f1,")


def test_progress_is_shown_on_a_terminal_only():
    for terminal in (True, False):
        screen = io.StringIO()
        console = Console(file=screen, force_terminal=terminal, width=100)
        with command._screen.show_progress(console) as steps:
            steps("GIST", 7)(3)
        assert ("3/7" in screen.getvalue()) == terminal


@pytest.mark.parametrize(
    ("package", "extra"),
    [
        ("pandas", "cli"),
        ("pyarrow", "cli"),
        ("PIL", "images"),
        pytest.param("skimage", "images", marks=pytest.mark.needs("pyarrow")),
    ],
)
def test_command_names_the_extra_that_is_missing(
    monkeypatch, capsys, folder, tmp_path, package, extra
):
    forget(monkeypatch, package)
    out = str(tmp_path / "a.parquet")
    monkeypatch.setattr(
        sys, "argv", ["mdaml", "features", str(folder), "--out", out, "--kind=both"]
    )
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(f"needs the {extra} extra: pip install 'mdaml[{extra}]'\n")
    assert captured.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["images"]
