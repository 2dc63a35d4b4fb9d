"""What commands print, how they end, and how they write files.

Results are tables for people, plain lines for pipes or one JSON document for programs.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeAlias

import typer
from numpy.linalg import LinAlgError
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Box

from mdaml._progress import follow, listen, make_bars
from mdaml.cli._failures import BAD_INPUT, end_command, format_json
from mdaml.cli._failures import WORK_FAILED as WORK_FAILED
from mdaml.cli._failures import CommandError as CommandError
from mdaml.cli._interrupts import ignore_interrupts
from mdaml.io.atomic import replace_file
from mdaml.io.messages import explain_os_error, shorten
from mdaml.io.texts import list_suffixes

# Outputs of the running command that are complete.
_written: list[Path] = []

# Starts a progress bar by its title and the number of steps, if known; called with steps done.
StartBar: TypeAlias = Callable[[str, int | None], Callable[[int], None]]


class Screen:
    """Prints results to stdout, as text or as JSON; notes, warnings and progress to stderr."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.document: dict[str, object] = {}
        self.console = Console(highlight=False)
        self._facts: list[tuple[str, str]] = []
        self._warnings: list[str] = []

    def print(self, line: str = "") -> None:
        """Print a line for people."""
        if not self.as_json:
            typer.echo(line)

    def print_note(self, line: str) -> None:
        """Print a line to stderr."""
        typer.echo(f"note: {line}", err=True)

    def add_fact(self, name: str, text: str, value: object) -> None:
        """Keep a fact, as text for people and as a value for the document."""
        self._facts.append((name, text))
        self.document[name] = value

    def print_facts(self) -> None:
        """Print all facts, one a line; on a terminal aligned."""
        width = max(len(name) for name, _ in self._facts) + 2
        for name, text in self._facts:
            self.print(f"{name:<{width}}{text}" if self.console.is_terminal else f"{name}: {text}")

    def print_table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """Print a table: boxed on a terminal, tab-separated under a header otherwise."""
        if self.as_json:
            return
        if not self.console.is_terminal:
            for row in (columns, *rows):
                typer.echo("\t".join(" ".join(str(cell).split()) for cell in row))
            return
        typer.echo(title)  # not the title of the box, which would be as narrow as the box
        box = Box(box=SIMPLE_HEAD)
        for place, name in enumerate(columns):
            is_text = any(not _is_number(row[place]) for row in rows)
            box.add_column(escape(name), justify="left" if is_text else "right")
        for row in rows:
            box.add_row(*(escape(str(cell)) for cell in row))
        self.console.print(box)

    @contextmanager
    def show_progress(
        self, title: str, total: int | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Show one progress bar on stderr; call what is yielded with the steps done."""
        with show_progress(Console(stderr=True)) as start:
            yield start(title, total)

    @contextmanager
    def follow_work(self, title: str) -> Iterator[None]:
        """Show on stderr the phases and steps that the library reports, in one bar."""
        with make_bars(Console(stderr=True)) as bars, listen(follow(bars, title)):
            yield

    @contextmanager
    def collect_warnings(self) -> Iterator[None]:
        """Print warnings of the library to stderr, each once, and keep them for the document."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self._warnings.append(text)
            typer.echo(f"warning: {text}", err=True)

    def print_document(self) -> None:
        """Print the JSON document, if one is wanted."""
        if self.as_json:
            typer.echo(format_json(self.document | {"warnings": self._warnings}))


@contextmanager
def run_command(
    as_json: bool = False, *, interrupted: str = "Interrupted: nothing was written."
) -> Iterator[Screen]:
    """Run a command: print its document at the end, and turn errors into words and exit codes."""
    screen = Screen(as_json)
    _written.clear()
    try:
        yield screen
        ignore_interrupts()
        screen.print_document()
    except BrokenPipeError:
        raise  # whoever read the output has seen enough; typer handles it
    except (Exception, KeyboardInterrupt) as error:  # our own errors end in a sentence too
        if _written:
            interrupted = f"Interrupted, but {_written[-1]} had been written before."
        end_command(error, as_json=as_json, interrupted=interrupted)


@contextmanager
def convert_errors(*more: type[Exception], code: int = BAD_INPUT) -> Iterator[None]:
    """Report errors that the library raises for wrong parameters and data as the user's."""
    try:
        yield
    except LinAlgError as error:
        raise CommandError(f"The work failed: {error}.", code=WORK_FAILED) from error
    except (ValueError, TypeError, *more) as error:  # type: ignore[misc]
        raise CommandError(str(error), code=code) from error


@contextmanager
def replace_output(
    out: Path, suffixes: tuple[str, ...], *, inputs: Iterable[str | Path | None]
) -> Iterator[Path]:
    """Open a file that replaces ``--out`` at the end; refuse an unwritable place at once.

    Refuse a file that the command reads, too. Inputs may be names of columns, which are no files.
    """
    read = [each for each in inputs if each is not None and _is_same_file(out, Path(each))]
    reason = f"it is the same file as {read[0]}, which this command reads" if read else None
    with ExitStack() as stack:
        if reason is not None:
            pass
        elif out.suffix.lower() not in suffixes:
            reason = f"the name must end in {list_suffixes(suffixes)}"
        else:
            try:
                if out.is_dir():
                    reason = "this is a folder"
                else:
                    part = stack.enter_context(replace_file(out))
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    reason = f"there is no folder {out.parent}. Create it first"
                else:
                    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
                    reason = explain_os_error(cause)
        if reason is not None:
            raise CommandError(f"--out: cannot write {shorten(str(out))}: {reason}.")
        yield part
    _written.append(out)


def _is_same_file(one: Path, other: Path) -> bool:
    """Say whether two names lead to one file, also through links."""
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError, RuntimeError):  # no such file, no valid name, or a ring of links
        return False


@contextmanager
def show_progress(console: Console) -> Iterator[StartBar]:
    """Show progress bars; yields a function that starts one."""
    with make_bars(console) as bars:

        def start(title: str, total: int | None = None) -> Callable[[int], None]:
            task = bars.add_task(escape(title), total=total)

            def update(n_done: int) -> None:
                if total is None:  # the one step of unknown length is done
                    bars.update(task, completed=1, total=1)
                else:
                    text = f"{escape(title)} {n_done}/{total}"
                    bars.update(task, completed=n_done, description=text)

            return update

        yield start


def _is_number(cell: object) -> bool:
    try:
        float(str(cell).partition(" ± ")[0].rstrip("%"))
    except ValueError:
        return False
    return True
