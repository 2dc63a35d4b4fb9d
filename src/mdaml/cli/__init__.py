"""The command ``mdaml``."""

import sys
from typing import TYPE_CHECKING, Annotated

from mdaml import __version__

if TYPE_CHECKING:
    from typer import Typer

_CLI = "mdaml's command line needs the cli extra: pip install 'mdaml[cli]'"
_ASK = "mdaml ask needs the ask extra: pip install 'mdaml[cli,ask]'"
_IMAGES = "mdaml features needs the images extra: pip install 'mdaml[images]'"

# Messages for packages that a command imports and that may be missing.
_HINTS = {
    **dict.fromkeys(("typer", "rich", "matplotlib", "pandas", "pyarrow", "jinja2"), _CLI),
    **dict.fromkeys(("PIL", "skimage"), _IMAGES),
    **dict.fromkeys(("starlette", "uvicorn", "sqlalchemy"), _ASK),
    "psycopg": "PostgreSQL needs its driver: pip install 'psycopg[binary]'",
}


def main() -> None:
    """Run the command line; if an extra is missing, print how to get it and exit with 1."""
    try:
        build_app()()
    except ModuleNotFoundError as error:
        hint = _HINTS.get((error.name or "").partition(".")[0])
        if hint is None:
            raise
        sys.stderr.write(f"{hint}\n")
        raise SystemExit(1) from None
    except KeyboardInterrupt:  # while packages are loaded; commands have their own words for it
        sys.stderr.write("Interrupted.\n")
        raise SystemExit(130) from None


def build_app() -> "Typer":
    """Assemble the application: one command per module of this package."""
    import typer

    from mdaml.cli.ask import ask
    from mdaml.cli.audit import audit
    from mdaml.cli.demo import demo
    from mdaml.cli.features import features
    from mdaml.cli.fit import fit
    from mdaml.cli.neighbors import neighbors
    from mdaml.cli.paper import paper
    from mdaml.cli.score import score
    from mdaml.cli.search import search
    from mdaml.cli.suggest import suggest
    from mdaml.cli.transform import transform

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"mdaml {__version__}")
            raise typer.Exit

    def root(
        _version: Annotated[
            bool,
            typer.Option(
                "--version", callback=show_version, is_eager=True, help="Show the version and exit."
            ),
        ] = False,
    ) -> None:
        """Learn a distance from weak supervision."""

    app = typer.Typer(
        name="mdaml", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    app.callback()(root)
    app.command()(demo)
    for command in (fit, search, score, audit, neighbors, transform):
        app.command(rich_help_panel="Models from files")(command)
    app.command()(features)
    app.command(rich_help_panel="Answers of people")(ask)
    app.command(rich_help_panel="Answers of people")(suggest)
    app.add_typer(paper, name="paper")
    return app
