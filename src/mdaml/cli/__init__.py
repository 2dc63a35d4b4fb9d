"""The command ``mdaml``."""

import sys
from typing import TYPE_CHECKING, Annotated

from mdaml import __version__

if TYPE_CHECKING:
    from typer import Typer

# What the commands import of the `cli` extra.
_EXTRA = ("typer", "rich", "matplotlib")


def main() -> None:
    """Run the command line; without the ``cli`` extra, say how to get it and exit with 1."""
    try:
        app = build_app()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write("mdaml's command line needs the cli extra: pip install 'mdaml[cli]'\n")
        raise SystemExit(1) from None
    app()


def build_app() -> "Typer":
    """Assemble the application: one command per module of this package."""
    import typer

    from mdaml.cli.demo import demo

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
    return app
