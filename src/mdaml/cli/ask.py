"""``mdaml ask``: a page where people compare items, and a metric that learns meanwhile."""

import tempfile
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from mdaml.cli._help import make_argument, make_option
from mdaml.cli._inputs import check_file
from mdaml.cli._screen import CommandError, Screen, convert_errors, run_command

if TYPE_CHECKING:
    from mdaml.ask.items import Items
    from mdaml.ask.running import Running
    from mdaml.constraints import Constraints

# What people are asked.
Form: TypeAlias = Literal["triplet", "odd", "same", "pick"]
Method: TypeAlias = Literal["mdaml", "localmdaml"]
_HELP = {
    "--demo": "Compare 60 colours.",
    "--answers": "Where to store answers; existing ones are kept.",
    "--database": "Keep answers in PostgreSQL instead, for several servers.",
    "--study": "Name of this study, if the answers of several are kept in one place; mdaml ask "
    "serve then runs all of them.",
    "--only": "Only this study; repeat for more. All by default.",
    "COLUMN": "Column to show; repeat for more.",
    "--id": "Column that names the items.",
    "--features": "Features from another file: .npy, row by row, or a table with the same ids, "
    "such as one written by mdaml features.",
    "--folder": "Where the files are, if not beside ITEMS.",
    "--scale/--no-scale": "Divide features by their standard deviations. This is the default "
    "unless their names are numbered, such as f1, f2, …, or they come from .npy.",
    "--form": "More like left or right; odd one out of three; same or different; pick some of "
    "several.",
    "--question": "The question in your own words.",
    "--pick": "How many to pick …",
    "--show": "… of how many.",
    "--held-out": "Share of random questions, used for scores.",
    "--repeats": "Share of questions that are repeated.",
    "--gold": "Questions with known answers, asked every 20th time: columns a,b,c (odd: "
    "item1,item2,item3,odd; same: a,b,label; pick: anchor,shown,picked, lists as x|y).",
    "--intro": "Instructions and consent, which people accept before the first question.",
    "--limit": "Maximum number of answers per person.",
    "--host": "Address to listen on. Unless it is this machine, people need a personal link.",
    "--port": "Port to listen on; 0 picks a free one.",
    "--links": "Always require personal links.",
    "--guests": "Most persons by the link for anybody.",
    "--public-url": "Address under which others reach this server, such as that of a proxy; links "
    "begin with it, and people need one.",
    "--learn/--no-learn": "Learn while people answer. With several servers, let only one learn.",
    "--method": "What learns: mdaml, or localmdaml, which also finds places for groups of items "
    "once there are answers enough.",
    "--new-study": "Begin another study in a new file beside --answers, such as answers-2.db.",
    "--accept-changes": "Go on with the answers although items, features, question or options "
    "have changed.",
    "--browser/--no-browser": "Open the page in a browser.",
}
_ITEMS, _QUESTIONS, _SERVER = "Items", "Questions", "Server"


_option = partial(make_option, _HELP)
_Items = Annotated[
    Path | None,
    typer.Argument(
        metavar="[ITEMS]",
        help="Table of items, .csv or .parquet, one per row: numeric columns are features, the "
        "others are shown. Or a folder of images.",
        show_default=False,
    ),
]
_Columns = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", rich_help_panel=_ITEMS, help=_HELP["COLUMN"])
]
_Demo = Annotated[bool, _option("--demo", None, None)]
_Answers = Annotated[Path, _option("--answers", "FILE", None)]
_Study = Annotated[str, _option("--study", "NAME", None, show_default=False)]
_Only = Annotated[list[str] | None, _option("--only", "NAME", None)]
_Place = Annotated[
    str,
    make_argument(
        "DATABASE", "File of answers, or postgresql://…, in which studies were begun by mdaml ask."
    ),
]
_Database = Annotated[str | None, _option("--database", "postgresql://…", _SERVER)]
_IdColumn = Annotated[str | None, _option("--id", "COLUMN", _ITEMS)]
_Features = Annotated[Path | None, _option("--features", "FILE", _ITEMS)]
_Folder = Annotated[Path | None, _option("--folder", "FOLDER", _ITEMS)]
_Scale = Annotated[bool | None, _option("--scale/--no-scale", None, _ITEMS, show_default=False)]
_FormOption = Annotated[Form, _option("--form", "triplet|odd|same|pick", _QUESTIONS)]
_Question = Annotated[str | None, _option("--question", "TEXT", _QUESTIONS)]
_Pick = Annotated[int, _option("--pick", "K", _QUESTIONS)]
_Show = Annotated[int, _option("--show", "N", _QUESTIONS)]
_HeldOut = Annotated[float, _option("--held-out", "SHARE", _QUESTIONS)]
_Repeats = Annotated[float, _option("--repeats", "SHARE", _QUESTIONS)]
_Gold = Annotated[Path | None, _option("--gold", "FILE", _QUESTIONS)]
_Intro = Annotated[Path | None, _option("--intro", "FILE.md", _QUESTIONS)]
_Limit = Annotated[int | None, _option("--limit", "N", _QUESTIONS)]
_Host = Annotated[str, _option("--host", "ADDRESS", _SERVER)]
_Port = Annotated[int, _option("--port", None, _SERVER, min=0, max=65535)]
_Links = Annotated[bool, _option("--links", None, _SERVER)]
_Guests = Annotated[int, _option("--guests", "N", _SERVER, min=0)]
_PublicUrl = Annotated[str, _option("--public-url", "URL", _SERVER, show_default=False)]
_Learn = Annotated[bool, _option("--learn/--no-learn", None, _SERVER)]
_MethodOption = Annotated[
    Method, _option("--method", "mdaml|localmdaml", _SERVER, case_sensitive=False)
]
_NewStudy = Annotated[bool, _option("--new-study", None, _SERVER)]
_AcceptChanges = Annotated[bool, _option("--accept-changes", None, _SERVER)]
_Browser = Annotated[bool, _option("--browser/--no-browser", None, _SERVER)]


def ask(
    items: _Items = None,
    demo: _Demo = False,
    answers: _Answers = Path("answers.db"),
    database: _Database = None,
    study: _Study = "",
    image: _Columns = None,
    text: _Columns = None,
    audio: _Columns = None,
    video: _Columns = None,
    id_column: _IdColumn = None,
    features: _Features = None,
    folder: _Folder = None,
    scale: _Scale = None,
    form: _FormOption = "triplet",
    question: _Question = None,
    pick: _Pick = 2,
    show: _Show = 6,
    held_out: _HeldOut = 0.2,
    repeats: _Repeats = 0.1,
    gold: _Gold = None,
    intro: _Intro = None,
    limit: _Limit = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8765,
    links: _Links = False,
    guests: _Guests = 1000,
    public_url: _PublicUrl = "",
    learn: _Learn = True,
    method: _MethodOption = "mdaml",
    new_study: _NewStudy = False,
    accept_changes: _AcceptChanges = False,
    browser: _Browser = True,
) -> None:
    """Ask people which items are alike, and learn a metric while they answer.

    For example, with a folder of photographs: mdaml features photos --out features.csv; then mdaml
    ask photos --features features.csv; then download the model from the owner's page; then mdaml
    neighbors model.mdaml features.csv --id file --query NAME.
    """
    from mdaml.ask import serve
    from mdaml.ask.questions import Plan
    from mdaml.ask.study import find_new_place

    with (
        run_command(interrupted="Stopped. All answers are stored.") as screen,
        ExitStack() as stack,
    ):
        if demo == (items is not None):
            raise CommandError("Name a table of items or a folder of images, or pass --demo.")
        shown = {"image": image, "text": text, "audio": audio, "video": video}
        columns = [(kind, name) for kind, names in shown.items() for name in names or ()]
        with convert_errors():
            plan = Plan(
                form=form,
                question=question,
                pick=pick,
                show=show,
                held_out=held_out,
                repeats=repeats,
                limit=limit,
            )
        if items is None:
            items = _prepare_demo(stack)
            if database is None and str(answers) == "answers.db":
                answers = items.parent / "answers.db"
                screen.print("Answers of the demo are not kept; --answers FILE keeps them.")
        options = {"id_column": id_column, "features": features, "folder": folder}
        known = _read(items, columns, scale=scale, **options)
        with convert_errors():
            place: str | Path = database or answers
            if new_study:
                place = find_new_place(place)
                screen.print(f"Answers: {place}. Pass --answers {place} to go on with them.")
            serve(
                known,
                place,
                plan=plan,
                study=study,
                host=host,
                port=port,
                links=links,
                guests=guests,
                public_url=public_url,
                gold=_read_gold(gold, known.ids, form),
                intro="" if intro is None else _read_text(intro),
                learns=learn,
                method=method,
                changes="accept" if accept_changes else "refuse",
                ready=lambda running: _announce(screen, running, browser),
            )


def serve(
    database: _Place,
    only: _Only = None,
    host: _Host = "127.0.0.1",
    port: _Port = 8765,
    links: _Links = False,
    public_url: _PublicUrl = "",
    learn: _Learn = True,
    browser: _Browser = True,
) -> None:
    """Run all studies of a database on one server, each with its own links.

    Begin each study by mdaml ask ITEMS --study NAME --answers DATABASE, which stores its items,
    question and options. Its pages are under /s/NAME.
    """
    from mdaml.ask.running import Running
    from mdaml.ask.security import make_access
    from mdaml.ask.several import open_sites

    with (
        run_command(interrupted="Stopped. All answers are stored.") as screen,
        convert_errors(),
    ):
        access = make_access(host, public_url, links=links)
        sites = open_sites(database, access, only or ())
        running = Running(*sites, host=host, port=port, learns=learn)
        running.run(lambda: _announce(screen, running, browser))


def _prepare_demo(stack: ExitStack) -> Path:
    from mdaml.ask.items import write_demo

    return write_demo(Path(stack.enter_context(tempfile.TemporaryDirectory())))


def _read(items: Path, columns: list[tuple[str, str]], **options: Any) -> "Items":
    from mdaml.ask.items import read_items

    if not items.is_dir():
        check_file(items)
    with convert_errors():
        return read_items(items, shown=columns, **options)


def _read_gold(path: Path | None, ids: Sequence[str], form: str) -> "Constraints | None":
    from mdaml.constraints import Constraints

    if path is None:
        return None
    check_file(path)
    kinds = {"odd": "odd_one_out", "pick": "picks"}
    return Constraints.read(path, ids=ids, form=kinds.get(form))


def _read_text(path: Path) -> str:
    check_file(path)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"{path}: this is not UTF-8 text. Save it as UTF-8.") from None


def _announce(screen: Screen, running: "Running", browser: bool) -> None:
    for site in running.sites:
        X = site.items.X
        n_features = 0 if X is None else X.shape[1]
        what = f"{n_features} features" if n_features else "no features: questions are random"
        named = f"{site.storage.study}: " if site.storage.study else ""
        screen.print(f"{named}{len(site.items.ids)} items, {what}.")
        if site.items.is_numbered and site.items.columns:
            screen.print(
                "The items have no names: answers and files name them by row, from 0. --id COLUMN "
                "names them, before the first answer."
            )
        if not n_features:
            screen.print("To learn, pass --features FILE; mdaml features makes one of photographs.")
        if site.access.is_open:
            screen.print(f"Answer:       {running.url}{site.path}")
            screen.print(f"Owner's page: {running.find_owner(site)}")
        else:
            link = running.find_owner(site)
            screen.print(f"Owner's link, which also makes links for persons: {link}")
    screen.print("Ctrl+C stops; answers are stored as they come.")
    if browser:
        webbrowser.open(running.url if running.site.access.is_open else running.owner_url)
