"""For scripts and notebooks: a site for many persons, or questions to one person inline."""

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from mdaml._typing import ArrayLike, FloatArray
from mdaml.ask.answers import to_constraints
from mdaml.ask.fitting import Method
from mdaml.ask.items import Column, Items, read_items
from mdaml.ask.questions import Plan
from mdaml.ask.running import Running
from mdaml.ask.security import Access, make_access
from mdaml.ask.server import Site
from mdaml.ask.storage import Storage
from mdaml.ask.study import OnChanges, check_name
from mdaml.constraints import Constraints


def serve(
    items: Items | str | Path,
    answers: str | Path = "answers.db",
    *,
    plan: Plan | None = None,
    study: str = "",
    host: str = "127.0.0.1",
    port: int = 8765,
    links: bool = False,
    guests: int = 1000,
    public_url: str = "",
    gold: Constraints | None = None,
    intro: str = "",
    learns: bool = True,
    method: Method = "mdaml",
    changes: OnChanges = "refuse",
    ready: Callable[[Running], None] | None = None,
) -> None:
    """Show pages where people answer, until the process is interrupted.

    Parameters
    ----------
    items : Items, str or path
        What is compared: a table, a folder of images, or what ``mdaml.ask.items.read_items``
        returned.
    answers : str or path, default="answers.db"
        A file, or ``postgresql://...``.
    plan : Plan, optional
        Form and words of the question, the mixture, and the limit for each person.
    study : str, default=""
        The name of one of several studies in `answers`; its pages begin with ``/s/`` and the name.
    host : str, default="127.0.0.1"
        The address to listen on. If other machines can reach it, persons and owner need links.
    port : int, default=8765
        0 for any that is free.
    links : bool, default=False
        Whether links are always needed.
    guests : int, default=1000
        How many persons may use the link that is open to anybody.
    public_url : str, default=""
        The address under which others reach the server, such as that of a proxy; links begin with
        it, and are always needed then.
    gold : Constraints, optional
        Questions with known answers.
    intro : str, default=""
        Instructions and consent, in Markdown.
    learns : bool, default=True
        Whether to learn, in another process. If there are several servers, only one should learn.
    method : {"mdaml", "localmdaml"}, default="mdaml"
        What learns: :class:`mdaml.MDaML`, or :class:`mdaml.LocalMDaML` once there are six answers
        for each feature. The downloaded model is of this class.
    changes : {"refuse", "accept"}, default="refuse"
        What to do if `answers` holds a study with other items, features, words, options or another
        introduction: raise an error that tells what differs, or go on with the answers.
    ready : callable, optional
        Called with the running site, whose ``url`` and ``owner_url`` can then be opened.

    See Also
    --------
    Interview : The same for one person, in a notebook.
    Plan : Form and words of the questions.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mdaml.ask import serve
    >>> from mdaml.ask.items import write_demo
    >>> def stop_at_once(running):
    ...     print("open", running.url.rpartition(":")[0])
    ...     running.stop()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder, "answers.db")
    ...     serve(write_demo(Path(folder)), place, port=0, learns=False, ready=stop_at_once)
    open http://127.0.0.1
    """
    known = items if isinstance(items, Items) else read_items(Path(items))
    access = replace(make_access(host, public_url, links=links), most_guests=guests)
    storage = Storage(answers, check_name(study))
    site = Site(known, plan or Plan(), storage, access, gold, intro, changes=changes, method=method)
    running = Running(site, host=host, port=port, learns=learns)
    running.run(None if ready is None else lambda: ready(running))


class Interview:
    """Questions to one person, shown in a notebook.

    Put the object on the last line of a cell and answer there. Then read ``constraints``: the
    answers so far, or None. ``url`` is the address of the page, for a browser.

    Parameters
    ----------
    X : array-like of shape (n_items, n_features), default=None
        Features, from which the next questions are chosen. None: questions are random.
    texts, images : sequence of str, default=None
        What to show of each item: texts, paths in `folder` or addresses.
    ids : sequence of str, default=None
        Names of the items. None: row numbers.
    folder : str or path, default="."
        Where images are.
    answers : str or path, default=None
        A file that keeps the answers. None: they are deleted with this object.
    plan : Plan, optional
        Form and words of the question, the mixture, and the limit.
    changes : {"refuse", "accept"}, default="refuse"
        As for :func:`serve`.

    See Also
    --------
    serve : Pages for many persons.
    suggest_queries : How the questions are chosen.

    Examples
    --------
    >>> from mdaml.ask import Interview
    >>> talk = Interview(texts=["cat", "lion", "car", "bus"])
    >>> talk.constraints is None
    True
    >>> talk.close()
    """

    def __init__(
        self,
        X: ArrayLike | None = None,
        *,
        texts: Sequence[str] | None = None,
        images: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        folder: str | Path = ".",
        answers: str | Path | None = None,
        plan: Plan | None = None,
        changes: OnChanges = "refuse",
    ) -> None:
        samples = None if X is None else np.asarray(X, float)
        shown = [Column(kind, list(c)) for kind, c in (("text", texts), ("image", images)) if c]
        sizes = [len(column.cells) for column in shown] + (
            [] if samples is None else [len(samples)]
        )
        if len(set(sizes)) != 1:
            raise ValueError(f"Pass X, texts or images with a row for each item, got {sizes} rows.")
        names = list(map(str, range(sizes[0]))) if ids is None else list(map(str, ids))
        self._items = Items(names, tuple(shown), samples, _name(samples), Path(folder))
        frames = "http://localhost:* http://127.0.0.1:* https://localhost:*"
        access = Access(person="me", frames=frames)
        with ExitStack() as opened:  # nothing is left behind if one of these fails
            folder = opened.enter_context(tempfile.TemporaryDirectory())
            place = answers or Path(folder, "answers.db")
            self._storage, of_site = Storage(place), Storage(place)
            opened.callback(self._storage.close)
            opened.callback(of_site.close)
            site = Site(self._items, plan or Plan(), of_site, access, changes=changes)
            self._running = Running(site, port=0, learns=samples is not None)
            self._running.start()
            self._opened = opened.pop_all()

    @property
    def url(self) -> str:
        """The address of the page, for a browser."""
        return f"{self._running.url}/ask"

    @property
    def constraints(self) -> Constraints | None:
        """The answers so far; None if there are none."""
        return to_constraints(self._storage.answers(), self._items.ids)

    def close(self) -> None:
        """Stop asking; a file of answers is kept.

        Examples
        --------
        >>> from mdaml.ask import Interview
        >>> Interview(texts=["cat", "lion", "car"]).close()
        """
        self._running.close()
        self._opened.close()

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" width="100%" height="640" title="Questions"></iframe>'


def _name(X: FloatArray | None) -> tuple[str, ...]:
    return () if X is None else tuple(f"x{place}" for place in range(X.shape[1]))
