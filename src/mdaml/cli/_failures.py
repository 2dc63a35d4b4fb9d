"""How a command ends when something goes wrong: a sentence, an exit code, a JSON document.

Needs no extra, so that a missing one can be reported too.
"""

import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from mdaml.cli._interrupts import INTERRUPTED as INTERRUPTED
from mdaml.cli._interrupts import ignore_interrupts, leave_on_interrupt, walk_causes
from mdaml.io.messages import explain_os_error, name_os_error, shorten

WORK_FAILED = 1
BAD_INPUT = 2

_CLI = "mdaml's command line needs the cli extra: pip install 'mdaml[cli]'"
_ASK = "mdaml ask needs the ask extra: pip install 'mdaml[cli,ask]'"
_IMAGES = "mdaml features needs the images extra: pip install 'mdaml[images]'"

# Messages for packages that a command imports and that may be missing.
_HINTS = {
    **dict.fromkeys(
        ("typer", "rich", "matplotlib", "pandas", "pyarrow", "openpyxl", "jinja2"), _CLI
    ),
    **dict.fromkeys(("PIL", "skimage"), _IMAGES),
    **dict.fromkeys(("starlette", "uvicorn", "sqlalchemy"), _ASK),
    "psycopg": "PostgreSQL needs its driver: pip install 'psycopg[binary]'",
}
_TRACEBACK = "MDAML_TRACEBACK"  # if this variable is set, tracebacks are printed
_LENGTH = 2000  # of a message


class CommandError(Exception):
    """Ends a command with a message for its user.

    Attributes
    ----------
    code : int
        Exit code of the command.
    details : sequence of str
        Lines to print above the message.
    """

    def __init__(self, message: str, *, code: int = BAD_INPUT, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


def end_command(
    error: BaseException, *, as_json: bool, interrupted: str = "Interrupted."
) -> NoReturn:
    """Print what went wrong, also as a document if one is wanted, and exit."""
    ignore_interrupts()
    failure = _explain(error, interrupted)
    if os.environ.get(_TRACEBACK) and failure.code != INTERRUPTED:
        traceback.print_exception(error)
    message = shorten(str(failure), _LENGTH)
    details = [shorten(line, _LENGTH) for line in failure.details]
    for line in (*details, message):
        sys.stderr.write(f"{line}\n")
    if as_json:
        print_document_of(message, details, failure.code)
    leave_on_interrupt(failure.code)
    raise SystemExit(failure.code) from None


def print_document_of(message: str, details: list[str], code: int) -> None:
    """Print the document that says what went wrong."""
    document = {"error": {"message": message, "details": details}, "exit_code": code}
    try:
        sys.stdout.write(format_json(document) + "\n")
        sys.stdout.flush()
    except OSError:  # a full disk: the sentence is all there can be; Python would try again at exit
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (until the process ends)


def format_json(document: Mapping[str, object]) -> str:
    """Return a document as one line of UTF-8, as JSON must be; escaped where stdout has another."""
    plain = partial(json.dumps, document, allow_nan=False, default=_to_plain)
    text = plain(ensure_ascii=False)
    try:
        printed = text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
        return text if printed == text.encode() else plain()
    except UnicodeEncodeError:
        return plain()


def _to_plain(value: object) -> object:
    """Return what JSON knows for a number or array of NumPy, and text for all else."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def escape_missing_letters() -> None:
    """Print letters that the encoding of stdout lacks as escapes, as Python does on stderr."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _explain(error: BaseException, interrupted: str) -> CommandError:
    """Return a sentence and an exit code for any error."""
    if any(isinstance(each, KeyboardInterrupt) for each in walk_causes(error)):
        return CommandError(interrupted, code=INTERRUPTED)
    from concurrent.futures.process import BrokenProcessPool

    failed = CommandError("Not enough memory.", code=WORK_FAILED)
    if isinstance(error, CommandError):
        return error
    if isinstance(error, ModuleNotFoundError):
        hint = _HINTS.get((error.name or "").partition(".")[0])
        if hint is not None:
            return CommandError(hint, code=WORK_FAILED)
    if isinstance(error, BrokenProcessPool):
        failed.args = ("A worker process was killed; perhaps memory ran out. Try fewer --jobs.",)
    elif isinstance(error, OSError):
        if error.filename is not None and not isinstance(error.filename, int):
            error = name_os_error(error, os.fsdecode(error.filename), "used")
        is_named = error.strerror is None and str(error)
        why = f"The system refused to read or write: {explain_os_error(error)}."
        failed.args = (str(error) if is_named else why,)
    elif not isinstance(error, MemoryError):
        failed.args = (
            f"This should not have happened: {type(error).__name__}: {error}. Please report it, "
            f"with what is printed if you set {_TRACEBACK}=1.",
        )
    return failed
