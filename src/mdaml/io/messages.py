"""Words for messages about files; loads nothing, since messages come at any time."""

import csv
import errno
import io
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

AnyPath: TypeAlias = str | os.PathLike[str]
# Returns how whoever calls gives a setting a value, for messages that say what to pass.
Naming: TypeAlias = Callable[[str, str], str]

_SPACE = "Free some space, or write to another disk"
# What became of a file, and what to do about it.
_REASONS = {
    errno.ENOENT: "there is no such file. Check the name and the folder",
    errno.EISDIR: "it is a folder. Name a file in it",
    errno.ENOTDIR: "a part of its path is a file, not a folder. Check the path",
    errno.EACCES: "you may not use it. Ask its owner for the permission, or copy it",
    errno.EPERM: "you may not use it. Ask its owner for the permission, or copy it",
    errno.EROFS: "the disk is read-only. Write to another one",
    errno.ELOOP: "it is a symbolic link that leads back to itself. Name the file it should lead to",
    errno.ENAMETOOLONG: "the name is longer than the disk allows. Choose a shorter one",
    errno.ENOSPC: f"the disk is full. {_SPACE}",
    errno.EDQUOT: f"your share of the disk is full. {_SPACE}",
    errno.EFBIG: "the file would be larger than allowed. Raise the limit, or write less",
    errno.EIO: "the disk reports an error. Try again, and check the disk",
    errno.EMFILE: "too many files are open. Close some, or raise the limit (ulimit -n)",
}
_WHILE_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, None)


_MOST_NAMES = 20_000  # compared with a name that is none of them
_LONGEST = 200  # letters of such a name
_NO_ANSWER = frozenset(
    (
        *("can't say", "can't tell", "cannot say", "cannot tell", "dk", "do not know"),
        *("don't know", "dont know", "i do not know", "i don't know", "i'm not sure", "idk"),
        *("no answer", "no idea", "no opinion", "not answered", "not known", "not sure", "pass"),
        *("prefer not to say", "refused", "skip", "skipped", "unanswered", "unknown"),
        *("unlabeled", "unlabelled", "unsure"),
        *("keine angabe", "keine ahnung", "unbekannt", "weiss nicht"),  # casefold turns ß into ss
        *("inconnu", "ne sait pas", "sans réponse", "desconocido", "no sabe", "no sé"),
    )
)


def name_argument(name: str, value: str) -> str:
    """Return an argument of a function with its value, if that is known.

    Examples
    --------
    >>> from mdaml.io.messages import name_argument
    >>> name_argument("drop", "day")
    "drop='day'"
    """
    return f"{name}={value!r}" if value else f"{name}="


def join_names(names: Iterable[str]) -> str:
    """Return names with commas between, those that hold one in quotation marks.

    Examples
    --------
    >>> from mdaml.io.messages import join_names, split_names
    >>> join_names(["mass", "length, mm"])
    'mass,"length, mm"'
    >>> split_names('mass, "length, mm"')
    ['mass', 'length, mm']
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def split_names(text: str) -> list[str]:
    """Return the names that :func:`join_names` joined."""
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def find_meant(name: str, known: Iterable[str]) -> str | None:
    """Return the name that was probably meant: the same but for capitals, or nearly the same."""
    from difflib import get_close_matches

    plain = name.strip().casefold()
    by_plain = {each.strip().casefold(): each for each in reversed([*known])}
    if plain in by_plain or len(name) > _LONGEST:
        return by_plain.get(plain)
    close = get_close_matches(plain, [*reversed(by_plain)][:_MOST_NAMES], 1, 0.6)
    return by_plain[close[0]] if close else None


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a question for what was meant, to be added to a message, or nothing."""
    meant = find_meant(name, known)
    return f" Did you mean {meant!r}?" if meant else ""


def is_no_answer(text: str) -> bool:
    """Say whether a text says that someone has no answer, such as "don't know".

    Examples
    --------
    >>> from mdaml.io.messages import is_no_answer
    >>> [is_no_answer(text) for text in ("Don’t know", "Weiß nicht", "no sé", "left")]
    [True, True, True, False]
    """
    plain = text.casefold().replace("’", "'").replace("_", " ").replace("-", " ")
    return " ".join(plain.split()).rstrip(".?!") in _NO_ANSWER


def describe_twins(names: Iterable[str]) -> str:
    """Return a question about names that differ in capitals or spaces only, or nothing.

    Examples
    --------
    >>> from mdaml.io.messages import describe_twins
    >>> describe_twins(["gold", "Gold", "silver"])
    "'Gold' and 'gold'. Did you mean the same? Then write them alike."
    """
    alike: dict[str, list[str]] = {}
    for name in sorted(names):
        alike.setdefault(" ".join(name.split()).casefold(), []).append(name)
    twins = [" and ".join(map(repr, group)) for group in alike.values() if len(group) > 1]
    if not twins:
        return ""
    more = f" and {len(twins) - 5} more" if len(twins) > 5 else ""
    return f"{', '.join(twins[:5])}{more}. Did you mean the same? Then write them alike."


def shorten(text: str, most: int = 200) -> str:
    """Return a text without the middle of an endless one: the cells of a table can have any size.

    Examples
    --------
    >>> from mdaml.io.messages import shorten
    >>> shorten("0123456789", 4)
    '01 … 89'
    """
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"


def explain_os_error(error: OSError) -> str:
    """Return why the system refused something, in words that say what to do."""
    known = _REASONS.get(error.errno or 0)
    return known or (error.strerror or str(error) or "the system does not say why").rstrip(".")


def name_os_error(error: OSError, path: AnyPath, action: str) -> OSError:
    """Return an error of the same kind whose message names the file and says what to do."""
    message = f"{shorten(os.fspath(path))} cannot be {action}: {explain_os_error(error)}."
    named = type(error)(message)
    named.errno = error.errno
    return named


def check_readable(path: AnyPath) -> None:
    """Refuse a path that cannot be read as a file, with the error that opening it would raise.

    It is not opened: a pipe could be read only once.

    Examples
    --------
    >>> from mdaml.io.messages import check_readable
    >>> check_readable("no.csv")
    Traceback (most recent call last):
    FileNotFoundError: no.csv cannot be read: there is no such file. Check the name and the folder.
    """
    try:
        found = find_status(path)
        if found is None and Path(path).is_symlink():
            target = os.path.realpath(path)
            message = f"{os.fspath(path)} cannot be read: it is a symbolic link to {target}, "
            raise FileNotFoundError(f"{message}which does not exist. Correct the link.")
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "")
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "")
        by_effective = os.access in os.supports_effective_ids
        if not os.access(path, os.R_OK, effective_ids=by_effective):
            raise PermissionError(errno.EACCES, "")
    except OSError as error:
        if error.errno is None:  # the message is complete
            raise
        raise name_os_error(error, path, "read") from None


def find_status(path: AnyPath) -> os.stat_result | None:
    """Return the status of a file, None if there is no file; refuse a name that cannot be one."""
    try:
        return Path(path).stat()
    except FileNotFoundError:
        return None
    except ValueError:  # the system's names end there
        message = f"{os.fspath(path)!a} is not the name of a file: it holds a NUL character."
        raise ValueError(f"{message} Remove it.") from None


def is_failed_write(error: OSError) -> bool:
    """Return whether an error comes from writing to an open file: such errors name none."""
    return error.filename is None and error.errno in _WHILE_WRITING
