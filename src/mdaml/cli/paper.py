"""``mdaml paper``: run the experiments of the paper, and report them."""

import shlex
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from mdaml import experiments
from mdaml._progress import make_bars
from mdaml.cli._help import STYLE, Command, Group
from mdaml.cli._screen import WORK_FAILED, CommandError, convert_errors, run_command
from mdaml.experiments import CONFIRMATION, DATASETS, METHODS

if TYPE_CHECKING:
    from mdaml.experiments import Job

_OUT = Path("mdaml-paper")
paper = typer.Typer(
    no_args_is_help=True,
    help="Run the experiments of the paper, and report them.",
    cls=Group,
    **STYLE,
)


@paper.command("run", cls=Command)
def run(
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Data sets, separated by commas, of: {', '.join(DATASETS)} (all by default), and "
            f"{', '.join(CONFIRMATION)}, which are not the paper's."
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A method; repeat the option for more. Of: {'; '.join(METHODS)}. All by default."
        ),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Random splits of each data set, 10 by default.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(help="Trials to run at a time, each on one core; -1 uses all cores.")
    ] = -1,
    out: Annotated[
        Path, typer.Option(help="Folder of the records. Existing records are not computed again.")
    ] = _OUT,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look in one minute: few sets, splits and values.")
    ] = False,
) -> None:
    """Tune, fit and classify: every table and figure of the paper's experiments as records.

    You can interrupt it at any time: run it again with the same options to continue.
    """
    names = None if datasets is None else [n for given in datasets for n in given.split(",") if n]
    path = out / ("quick.jsonl" if quick else "records.jsonl")
    interrupted = f"Interrupted. Nothing is lost: run the same again to go on. {path}"
    with run_command(interrupted=interrupted) as screen:
        import joblib

        with convert_errors(FileNotFoundError):
            plan, left_out = experiments.make_plan(names, methods, trials, quick=quick)
        if left_out:
            screen.print(
                f"Left out, because their files are not here: {', '.join(left_out)}. Set "
                "MDAML_DATA to the folder that holds them."
            )
        if out.exists() and not out.is_dir():
            raise CommandError(f"--out: {out} is a file. Name a folder, or one to be made.")
        with convert_errors():
            before = len(experiments.read_records(path))
        if before:
            screen.print(f"Going on: {path} holds {before} records.")
        with (
            convert_errors(BlockingIOError),
            _explain_loss(path),
            _show_jobs(screen.console) as show,
            joblib.parallel_config("loky", inner_max_num_threads=1),
        ):
            records = experiments.run(plan, path, n_jobs=jobs, progress=show)
        where = "" if out == _OUT else f" --records {shlex.quote(str(path))}"
        screen.print(f"{len(records)} records: {path}. Now: mdaml paper report{where}")


@paper.command()
def report(
    records: Annotated[
        Path | None,
        typer.Option(
            help="File of records, or the folder that --out of mdaml paper run named; the newest "
            "file counts. By default the folder mdaml-paper."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the report; by default beside the records.")
    ] = None,
) -> None:
    """Write tables, figures and one page with all of them from the records of a run."""
    with run_command() as screen:
        from mdaml.experiments.report import write_report

        path = _find_records(_OUT if records is None else records)
        with convert_errors(), screen.console.status("Writing the report …"):
            page = write_report(experiments.read_records(path), out or path.parent / "report")
        screen.print(f"Report: {page}")


def _find_records(path: Path) -> Path:
    """Return a file of records, or the newest in a folder."""
    if path.is_dir() or path == _OUT:
        found = sorted(path.glob("*.jsonl"), key=lambda each: each.stat().st_mtime)
        if not found:
            raise CommandError(
                f"There are no records in {path}. Run mdaml paper run first; if its --out named "
                "another folder, pass that with --records."
            )
        return found[-1]
    if not path.exists():
        raise CommandError(f"--records: there is no file or folder {path}.")
    return path


@contextmanager
def _explain_loss(path: Path) -> Iterator[None]:
    """Say what is left when a worker was killed."""
    try:
        yield
    except BrokenProcessPool as error:
        raise CommandError(
            "A worker process was killed; perhaps memory ran out. Nothing is lost: run the same "
            f"again to go on, with fewer --jobs. {path}",
            code=WORK_FAILED,
        ) from error


@contextmanager
def _show_jobs(console: Console) -> Iterator[Callable[["Job", float, float], None]]:
    """Show the work that is done; the time left follows from its share of all work."""
    with make_bars(console, transient=False) as bars:
        task = bars.add_task("starting", total=None)

        def show(job: "Job", done: float, total: float) -> None:
            what = f"{job.dataset}: {job.method}"
            bars.update(task, completed=done, total=total, description=what, refresh=True)

        yield show
