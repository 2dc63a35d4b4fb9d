"""``mdaml paper``: run the experiments of the paper, and report them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import joblib
import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from mdaml.experiments import (
    CONFIRMATION,
    DATASETS,
    METHODS,
    Job,
    make_plan,
    read_records,
    run,
)

_OUT = Path("mdaml-paper")
paper = typer.Typer(no_args_is_help=True, help="Run the experiments of the paper, and report them.")


@paper.command("run")
def run_command(
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
        int, typer.Option(help="Trials at a time, each on one core; -1 is one for every core.")
    ] = -1,
    out: Annotated[
        Path, typer.Option(help="Folder of the records. What is there is not run again.")
    ] = _OUT,
    quick: Annotated[
        bool, typer.Option("--quick", help="A look in two minutes: few sets, splits and values.")
    ] = False,
) -> None:
    """Tune, fit and classify: every table and figure of the paper's experiments as records.

    Interrupt it when you like, and start it again with the same options: it goes on where it was.
    """
    console = Console(highlight=False)
    names = None if datasets is None else [n for given in datasets for n in given.split(",") if n]
    try:
        plan, left_out = make_plan(names, methods, trials, quick=quick)
    except (ValueError, FileNotFoundError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    if left_out:
        console.print(
            f"Left out, because their files are not here: {', '.join(left_out)}. Set MDAML_DATA to "
            "the folder that holds them.",
            soft_wrap=True,
        )
    path = out / ("quick.jsonl" if quick else "records.jsonl")
    before = len(read_records(path))
    if before:
        console.print(f"Going on: {path} holds {before} records.", soft_wrap=True)
    try:
        with _progress(console) as show, joblib.parallel_config("loky", inner_max_num_threads=1):
            records = run(plan, path, n_jobs=jobs, progress=show)
    except KeyboardInterrupt:
        console.print(f"Interrupted. Nothing is lost: run the same again to go on. {path}")
        raise typer.Exit(130) from None
    except (ValueError, BlockingIOError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    console.print(f"{len(records)} records: {path}. Now: mdaml paper report", soft_wrap=True)


@paper.command()
def report(
    records: Annotated[
        Path | None,
        typer.Option(help="File of records; by default the newest that mdaml paper run wrote."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the report; by default beside the records.")
    ] = None,
) -> None:
    """Write tables, figures and one page with all of it from the records of a run."""
    from mdaml.experiments.report import write_report

    if records is None:
        found = sorted(_OUT.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        if not found:
            typer.echo("No records in mdaml-paper: mdaml paper run first, or --records.", err=True)
            raise typer.Exit(2)
        records = found[-1]
    elif not records.exists():
        typer.echo(f"--records: there is no file {records}.", err=True)
        raise typer.Exit(2)
    try:
        with Console().status("Writing the report …"):
            page = write_report(read_records(records), out or records.parent / "report")
    except (ValueError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"Report: {page}")


@contextmanager
def _progress(console: Console) -> Iterator["_Show"]:
    columns = (
        TextColumn("{task.description:<32}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        yield _Show(bar)


class _Show:
    """Tells a bar of the work that is done; the time left follows from its share of all work."""

    def __init__(self, bar: Progress) -> None:
        self._bar, self._task = bar, bar.add_task("starting", total=None)

    def __call__(self, job: Job, done: float, total: float) -> None:
        what = f"{job.dataset}: {job.method}"
        self._bar.update(self._task, completed=done, total=total, description=what, refresh=True)
