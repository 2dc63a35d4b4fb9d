"""The command ``mdaml``."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

from mdaml.cli._interrupts import (
    allow_interrupts,
    hold_interrupts,
    ignore_interrupts,
    leave_on_interrupt,
)

if TYPE_CHECKING:
    from typer import Typer


def main() -> None:
    """Run the command line; whatever happens ends in words, an exit code and, if wanted, JSON."""
    hold_interrupts()
    from mdaml.cli._failures import end_command, escape_missing_letters

    escape_missing_letters()
    as_json = "--json" in sys.argv
    try:
        allow_interrupts()
        # Commands explain their own errors; these come before, while packages are loaded or
        # arguments read. Users get a sentence, and the traceback if a variable is set.
        try:
            # The version at once, and without the packages that commands need.
            code = _print_version() if sys.argv[1:] == ["--version"] else _call(build_app())
        except Exception as error:
            end_command(error, as_json=as_json)
        ignore_interrupts()
    except KeyboardInterrupt as error:  # during any of this
        end_command(error, as_json=as_json)
    leave_on_interrupt(code)
    sys.exit(code)


def _print_version() -> int:
    from mdaml import __version__

    sys.stdout.write(f"mdaml {__version__}\n")
    sys.stdout.flush()
    return 0


def _call(app: "Typer") -> int:
    """Run the application; report wrong arguments as typer does, and in JSON if that is wanted."""
    import typer

    from mdaml.cli._failures import INTERRUPTED, print_document_of

    # By its subclass: newer versions of typer have a copy of click, under another name.
    usage_error: Any = typer.BadParameter.__base__
    try:
        code: Any = app(standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except usage_error as error:
        ignore_interrupts()
        from typer.rich_utils import rich_format_error

        rich_format_error(error)
        code = error.exit_code
        if "--json" in sys.argv:
            print_document_of(error.format_message(), [], code)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code or 0


def build_app() -> "Typer":
    """Assemble the application: one command per module of this package."""
    import typer

    from mdaml import __version__
    from mdaml.cli._help import STYLE, Command, Group
    from mdaml.cli.adapt import adapt
    from mdaml.cli.ask import ask, serve
    from mdaml.cli.audit import audit
    from mdaml.cli.demo import demo
    from mdaml.cli.evaluate import evaluate
    from mdaml.cli.features import features
    from mdaml.cli.fit import fit
    from mdaml.cli.neighbors import neighbors
    from mdaml.cli.paper import paper
    from mdaml.cli.predict import predict
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
        name="mdaml", no_args_is_help=True, pretty_exceptions_enable=False, cls=Group, **STYLE
    )
    app.callback()(root)
    models = (fit, search, score, predict, audit, neighbors, transform)
    for command in (*models, adapt, evaluate, ask, suggest, features, demo):
        app.command(cls=Command)(command)
    app.command("ask serve", cls=Command)(serve)
    app.add_typer(paper, name="paper")
    return app
