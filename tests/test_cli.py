import importlib
import inspect
import io
import re
import sys
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from matplotlib.image import imread
from rich.console import Console
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import mdaml
import mdaml.cli.demo as demo_module
from mdaml.cli import build_app, main
from mdaml.cli._options import METHODS, _check_method
from mdaml.cli._screen import show_progress
from mdaml.cli.adapt import PARAMETERS
from mdaml.datasets import make_multimodal
from mdaml.experiments.toy_figure import draw_toy, make_toy_model
from mdaml.people import PersonalMetrics
from mdaml.retrieval import QueryAdapter


@pytest.fixture
def run():
    runner = CliRunner()
    return lambda *arguments: runner.invoke(build_app(), [str(word) for word in arguments])


@pytest.fixture
def model():
    """What the figure reads of a fitted model."""
    return SimpleNamespace(
        components_=np.array([[2.0, -1.5], [0.1, 0.4]]),
        centers_=np.array([[-1.0, -1.0], [1.0, 0.5]]),
        weights_=np.random.default_rng(0).dirichlet([1.0, 1.0], size=60),
    )


@pytest.fixture
def figure(model):
    return draw_toy(model, *make_multimodal(60, random_state=0), (81.25, 97.5))


@pytest.fixture
def without_learning(monkeypatch, figure):
    """Replace the work of the demo by a result with one gain and one loss."""
    scores = [
        demo_module.DemoScores(
            "up", np.zeros((9, 3)), np.arange(9) % 3, [80, 90], [90, 96], [1, 2]
        ),
        demo_module.DemoScores("down", np.zeros((8, 2)), np.arange(8) % 2, [90], [84.5], [0.25]),
    ]
    monkeypatch.setattr(demo_module, "_learn", lambda *_: (scores, figure))


def fail_learning(monkeypatch, error):
    def learn(*_):
        raise error

    monkeypatch.setattr(demo_module, "_learn", learn)


def test_version_is_one_line(run):
    result = run("--version")
    assert result.exit_code == 0
    assert result.output.startswith("mdaml ")
    assert result.output.count("\n") == 1


def test_help_names_the_command(run):
    assert "demo" in run("--help").output


@pytest.mark.usefixtures("without_learning")
def test_demo_shows_gains_and_losses_alike(run, tmp_path):
    result = run("demo", "--splits", 2, "--out", tmp_path / "a.png")
    assert result.exit_code == 0
    cells = {line.split()[0]: line for line in result.output.splitlines() if line.strip()}
    assert "85.0 ± 7.1" in cells["up"]
    assert "93.0 ± 4.2" in cells["up"]
    assert "+8.0" in cells["up"]
    assert "1.50" in cells["up"]
    assert "-5.5" in cells["down"]


@pytest.mark.usefixtures("without_learning")
def test_demo_says_what_was_compared(run, tmp_path):
    output = " ".join(run("demo", "--out", tmp_path / "a.png").output.split())
    for words in ("5 random 70/30 splits", "the same for both", "nothing tuned", "training part"):
        assert words in output


@pytest.mark.usefixtures("without_learning")
def test_demo_writes_a_picture_and_says_where(run, tmp_path):
    out = tmp_path / "picture.png"
    result = run("demo", "--out", out)
    assert f"Picture: {out.resolve()}\n" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]
    pixels = imread(out)
    assert pixels.shape[1] >= 1200
    assert np.ptp(pixels[..., :3]) == 1.0  # black on white


@pytest.mark.usefixtures("without_learning")
def test_demo_replaces_an_old_picture(run, tmp_path):
    out = tmp_path / "picture.png"
    out.write_bytes(b"old")
    assert run("demo", "--out", out).exit_code == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_old_picture_survives_a_failure(run, monkeypatch, tmp_path):
    fail_learning(monkeypatch, RuntimeError("broken"))
    out = tmp_path / "picture.png"
    out.write_bytes(b"old")
    result = run("demo", "--out", out)
    assert result.exit_code == 1
    assert "RuntimeError: broken" in result.output
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_interrupt_ends_with_one_line_and_code_130(run, monkeypatch, tmp_path):
    fail_learning(monkeypatch, KeyboardInterrupt())
    result = run("demo", "--out", tmp_path / "a.png")
    assert result.exit_code == 130
    assert result.output == "Interrupted: no picture was written.\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing/a.png", "missing. Create it first"),
        ("file/a.png", "not a folder. Check the path"),
        ("folder.png", "this is a folder"),
        ("a.svg", "the name must end in .png"),
    ],
)
def test_unwritable_out_is_refused_before_any_work(run, monkeypatch, tmp_path, name, reason):
    fail_learning(monkeypatch, AssertionError("work was done"))
    (tmp_path / "file").touch()
    (tmp_path / "folder.png").mkdir()
    before = sorted(tmp_path.iterdir())
    result = run("demo", "--out", tmp_path / name)
    assert result.exit_code == 2
    assert result.output.startswith(f"--out: cannot write {(tmp_path / name).resolve()}: ")
    assert reason in result.output
    assert result.output.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("arguments", [("--splits", 0), ("--seed", -1), ("--splits", "many")])
def test_options_out_of_range_are_refused(run, arguments):
    assert run("demo", *arguments).exit_code == 2


def forget(monkeypatch, package):
    """Make `package` look as if it was not installed, until the end of the test."""
    for name in list(sys.modules):
        if name.partition(".")[0] == package or name.startswith("mdaml.cli."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(
    ("package", "words"), [("typer", ["--help"]), ("rich", ["--help"]), ("matplotlib", ["demo"])]
)
def test_missing_extra_is_one_clear_line(monkeypatch, capsys, tmp_path, package, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mdaml", *words])
    forget(monkeypatch, package)
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "mdaml's command line needs the cli extra: pip install 'mdaml[cli]'\n"
    assert not list(tmp_path.iterdir())


def test_other_missing_modules_are_not_blamed_on_the_extra(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["mdaml", "--help"])
    forget(monkeypatch, "webbrowser")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "webbrowser" in capsys.readouterr().err


def test_figure_gives_both_accuracies(figure):
    before, after = figure.axes
    assert before.get_title() == "Before learning: 3-NN accuracy 81.2 %"
    assert after.get_title() == "After learning: 3-NN accuracy 97.5 %"
    assert all(axes.get_aspect() == 1.0 for axes in figure.axes)


def test_balls_hold_the_ten_points_nearest_by_either_metric(figure, model):
    X, _ = make_multimodal(60, random_state=0)
    M = model.components_.T @ model.components_
    for line, metric in zip(figure.axes[0].lines[:2], (np.eye(2), M), strict=True):
        center = line.get_xydata()[:-1].mean(axis=0)
        sq_radii, sq_dists = (
            np.einsum("ni,ij,nj->n", Z - center, metric, Z - center) for Z in (line.get_xydata(), X)
        )
        np.testing.assert_allclose(sq_radii, sq_radii[0], rtol=1e-9)
        assert sq_dists.min() == pytest.approx(0.0, abs=1e-12)  # around a point
        assert np.sum(sq_dists <= sq_radii[0] * (1 + 1e-9)) == 11  # itself and ten more


def test_learned_ball_is_round_in_the_learned_space(figure):
    ball = figure.axes[1].lines[1].get_xydata()
    dists = np.linalg.norm(ball - ball[:-1].mean(axis=0), axis=1)
    np.testing.assert_allclose(dists, dists[0], rtol=1e-9)


def test_every_mode_is_marked(figure, model):
    modes = figure.axes[1].lines[-1].get_xydata()
    learned = model.centers_ @ model.components_.T
    assert np.linalg.norm(modes[0] - modes[1]) == pytest.approx(
        np.linalg.norm(learned[0] - learned[1])
    )


def test_points_are_fainter_where_no_mode_claims_them(figure, model):
    _, y = make_multimodal(60, random_state=0)
    points = figure.axes[1].collections[0]
    alpha = points.get_facecolors()[:, 3]
    order = np.argsort(model.weights_.max(axis=1)[y == 0])
    assert (np.diff(alpha[order]) >= 0).all()
    assert alpha.min() < 0.5 < alpha.max()


@pytest.mark.slow
def test_demo_learns_on_bundled_data(run, monkeypatch, tmp_path):
    monkeypatch.setattr(demo_module, "_BUNDLED", ("balance", "sonar"))
    monkeypatch.setattr(demo_module, "_MAX_ROWS", {"balance": 150})
    result = run("demo", "--splits", 1, "--out", tmp_path / "a.png")
    assert result.exit_code == 0, result.output
    for name in ("balance: 150 random rows", "sonar", "toy, 2-D"):
        assert name in " ".join(result.output.split())
    assert "compiling" not in result.output  # no progress when nobody looks
    assert imread(tmp_path / "a.png").size > 0


@pytest.mark.slow
def test_accuracies_of_the_picture_are_those_of_the_table(monkeypatch):
    monkeypatch.setattr(demo_module, "_BUNDLED", ())
    (toy,), figure = demo_module._learn(lambda *_: lambda _: None, 3, 0)
    before, after = (axes.get_title() for axes in figure.axes)
    assert before.endswith(f" {np.mean(toy.euclidean):.1f} %")
    assert after.endswith(f" {np.mean(toy.mdaml):.1f} %")


def test_the_modes_of_the_picture_are_the_four_bands():
    X, y = make_multimodal(random_state=0)
    model = make_toy_model(0).fit(StandardScaler().fit_transform(X), y)
    mode = model.weights_.argmax(axis=1)
    shares = np.array([np.bincount(y[mode == k], minlength=2) for k in range(4)])
    assert (shares.max(axis=1) >= 0.95 * shares.sum(axis=1)).all()  # of one class, nearly all
    assert shares.sum(axis=1).min() >= 0.8 * len(X) / 4  # a band each
    apart = np.linalg.norm(
        np.diff(np.sort(model.transform(model.centers_), axis=0), axis=0), axis=1
    )
    assert apart.min() > 1.0


@pytest.mark.slow
def test_progress_names_the_data_set_on_a_terminal(monkeypatch):
    monkeypatch.setattr(demo_module, "_BUNDLED", ())
    screen = io.StringIO()
    with show_progress(Console(file=screen, force_terminal=True, width=100)) as start_bar:
        demo_module._learn(start_bar, 1, 0)
    assert "compiling" in screen.getvalue()
    assert "toy, 2-D" in screen.getvalue()


def test_the_command_line_has_what_python_has():
    page = Path(__file__).parents[1].joinpath("docs", "command_line.md").read_text()
    both, _, only = page.partition("## Python and the shell")[2].partition("Only in Python:")
    rows = [line.strip("| ").split(" | ") for line in both.splitlines() if line.startswith("| `")]
    commands = typer.main.get_command(build_app()).commands
    options = {option for each in commands.values() for p in each.params for option in p.opts}
    for _, shell in rows:
        words = re.findall(r"`([^`]+)`", shell)
        assert all(word in (options if word.startswith("-") else commands) for word in words), shell
    shown = {word for _, shell in rows for word in re.findall(r"`([a-z][a-z ]*)`", shell)}
    assert shown == set(commands)
    named = [name for left, _ in rows for name in re.findall(r"`(\w+)`", left)]
    named += [
        name
        for line in only.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split(" | ")[0])
    ]
    assert len(named) == len(set(named)), "a name is there twice"
    assert set(named) - {"KNeighborsClassifier"} == set(list_public_names())
    assert set(METHODS.values()) == set(mdaml.estimators.__all__)


def test_mdaml_adapt_has_what_an_adapter_has():
    """Every argument of the class and of its fit can be given, except how it reports."""
    command = typer.main.get_command(build_app()).commands["adapt"]
    given = {parameter.name for parameter in command.params} | set(PARAMETERS)
    others = {"random_state": "seed", "warm_start": "start", "ids": "queries"}
    wanted = {*signature(QueryAdapter).parameters, *signature(QueryAdapter.fit).parameters}
    assert {others.get(name, name) for name in wanted - {"self", "verbose"}} <= given


def list_public_names():
    """Functions, classes and methods of models, without what all scikit-learn estimators have."""
    folders = ("ask", "constraints", "features", "datasets", "inspection", "model_selection")
    folders += ("people", "retrieval", "verification")
    modules = [importlib.import_module(f"mdaml.{name}") for name in folders]
    names = {name for module in (mdaml, *modules) for name in module.__all__}
    classes = (mdaml.MDaML, mdaml.LocalMDaML, PersonalMetrics, QueryAdapter)
    members = [name for each in classes for name, _ in inspect.getmembers(each, inspect.isroutine)]
    methods = {name for name in members if name[0] != "_"}
    of_sklearn = {name for name in methods if hasattr(BaseEstimator, name)}
    of_sklearn |= {"get_feature_names_out", "set_output", "set_fit_request"}
    of_sklearn |= {"set_partial_fit_request", "set_transform_request", "paper", "__version__"}
    return (names | methods) - of_sklearn - (set(mdaml.estimators.__all__) - {"MDaML"})


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (
            ["neighbors", "m.mdaml", "t.csv", "1005"],
            "The command takes MODEL DATA and options: see",
        ),
        (["demo", "3"], "The command takes options only: see --help."),
        (["paper", "run", "wine"], "The command takes options only: see --help."),
        (["predict", "m.mdaml", "t.csv", "--k", "5"], "Did you mean -k?"),
        (["neighbors", "m.mdaml", "t.csv", "--k=5"], "Did you mean -k?"),
    ],
)
def test_arguments_of_another_form_are_answered_with_the_right_one(run, words, advice):
    result = run(*words)
    assert result.exit_code == 2
    assert advice in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("given", "method"), [("MDaML", "mdaml"), ("DMLeig", "dml-eig"), ("DML-dc", "dml-dc")]
)
def test_methods_may_be_written_as_in_python(given, method):
    assert _check_method(given) == method
    with pytest.raises(typer.BadParameter, match=f"'{given}s' is not one of dmlmj"):
        _check_method(f"{given}s")


def test_the_method_of_ask_may_be_written_as_in_python():
    command = typer.main.get_command(build_app()).commands["ask"]
    context = command.make_context("ask", ["--demo", "--method", "LocalMDaML"])
    assert context.params["method"] == "localmdaml"
