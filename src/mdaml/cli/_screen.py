"""How commands speak: tables for people, plain lines for pipes, one JSON document for machines."""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from mdaml.cli._output import BAD_INPUT, WORK_FAILED, CommandError

INTERRUPTED = 130


class Screen:
    """Results go to stdout, as text or as JSON; notes, warnings and progress to stderr."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.document: dict[str, Any] = {}
        self._facts: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self._console = Console(highlight=False)
        self._progress = Console(stderr=True)

    @property
    def is_terminal(self) -> bool:
        """Whether somebody watches the results."""
        return self._console.is_terminal

    def say(self, line: str = "") -> None:
        """Print a line for people."""
        if not self.as_json:
            typer.echo(line)

    def tell(self, name: str, text: str, value: Any) -> None:
        """Keep a fact, as text for people and as a value for the document."""
        self._facts.append((name, text))
        self.document[name] = value

    def say_facts(self) -> None:
        """Print the facts that were told, one a line; on a terminal aligned."""
        width = max(len(name) for name, _ in self._facts) + 2
        for name, text in self._facts:
            self.say(f"{name:<{width}}{text}" if self.is_terminal else f"{name}: {text}")

    def say_table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """Print a table: boxed on a terminal, tab-separated under a header otherwise."""
        if self.as_json:
            return
        if not self.is_terminal:
            for row in (columns, *rows):
                typer.echo("\t".join(" ".join(str(cell).split()) for cell in row))
            return
        typer.echo(title)  # not the table's own title, which would be as narrow as the table
        table = Table(box=SIMPLE_HEAD)
        for place, name in enumerate(columns):
            is_text = any(
                isinstance(row[place], str) and not _is_number(row[place]) for row in rows
            )
            table.add_column(escape(name), justify="left" if is_text else "right")
        for row in rows:
            table.add_row(*(escape(str(cell)) for cell in row))
        self._console.print(table)

    def note(self, line: str) -> None:
        """Print a line to stderr."""
        typer.echo(line, err=True)

    @contextmanager
    def working(self, title: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show progress while something is done; call what is yielded with the steps made."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
        )
        with Progress(
            *columns,
            console=self._progress,
            transient=True,
            disable=not self._progress.is_terminal,
        ) as bar:
            task = bar.add_task(escape(title), total=total)
            yield lambda n_done: bar.update(task, completed=n_done)

    @contextmanager
    def collecting_warnings(self) -> Iterator[None]:
        """Print warnings of the library as notes, each once, and keep them for the document."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self.warnings.append(text)
            self.note(f"warning: {text}")

    def finish(self) -> None:
        """Print the document, if one is wanted."""
        if self.as_json:
            document = self.document | {"warnings": self.warnings}
            typer.echo(json.dumps(document, allow_nan=False, default=_to_json, ensure_ascii=False))

    def fail(self, refusal: CommandError) -> None:
        """Print what went wrong, and the document that says so, if one is wanted."""
        for line in refusal.details:
            self.note(line)
        self.note(str(refusal))
        if self.as_json:
            error = {"message": str(refusal), "details": list(refusal.details)}
            typer.echo(json.dumps({"error": error, "exit_code": refusal.code}, ensure_ascii=False))


@contextmanager
def talking(as_json: bool) -> Iterator[Screen]:
    """Run a command: print its document at the end, and turn errors into words and exit codes."""
    screen = Screen(as_json)
    try:
        yield screen
        screen.finish()
    except CommandError as refusal:
        screen.fail(refusal)
        raise typer.Exit(refusal.code) from None
    except KeyboardInterrupt:
        screen.fail(CommandError("Interrupted: nothing was written.", code=INTERRUPTED))
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise  # whoever read us has seen enough, which typer knows to handle
    except (OSError, MemoryError) as error:
        what = "Not enough memory." if isinstance(error, MemoryError) else str(error)
        screen.fail(CommandError(what, code=WORK_FAILED))
        raise typer.Exit(WORK_FAILED) from None


@contextmanager
def blaming_input(code: int = BAD_INPUT) -> Iterator[None]:
    """Pass on what the library says of wrong parameters and data as the user's to mend."""
    from numpy.linalg import LinAlgError

    try:
        yield
    except LinAlgError as error:
        raise CommandError(f"The work failed: {error}.", code=WORK_FAILED) from error
    except (ValueError, TypeError) as error:
        raise CommandError(str(error), code=code) from error


def _is_number(cell: object) -> bool:
    try:
        float(str(cell).rstrip("%"))
    except ValueError:
        return False
    return True


def _to_json(value: Any) -> Any:
    """Return what JSON knows for a number or array of NumPy, and text for all else."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
