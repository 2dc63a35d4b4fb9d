"""Help pages that look the same with every version of typer, on a terminal and in a pipe."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from typer import Argument, BadParameter, Option
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo, OptionInfo

from mdaml._choosing import CHOICES

# Contexts, formatters and parameters: newer versions of typer have their own copy of click.
Click: TypeAlias = Any
# Plain pages: the boxes of typer differ from version to version.
STYLE: dict[str, Any] = {"rich_markup_mode": None, "context_settings": {"max_content_width": 100}}


# By its subclass: newer versions of typer have a copy of click, under another name.
_USAGE_ERROR: Any = BadParameter.__base__
# Some pairs of versions of typer and click lose the help of arguments.
_ARGUMENTS: dict[str, str] = {}


def make_argument(name: str, text: str) -> ArgumentInfo:
    """Return an argument of a command, shown by this name with this help."""
    _ARGUMENTS[name] = text
    return Argument(metavar=name, help=text, show_default=False)


def make_option(
    helps: Mapping[str, str],
    name: str,
    metavar: str | None = None,
    panel: str | None = None,
    **settings: Any,
) -> OptionInfo:
    """Return an option of a command, with its help from a table."""
    return Option(name, metavar=metavar, help=helps[name], rich_help_panel=panel, **settings)


class Command(TyperCommand):
    """A command with our help page."""

    def parse_args(self, ctx: Click, args: list[str]) -> Any:
        """Read arguments; say what the command takes if there are too many or unknown options."""
        try:
            return super().parse_args(ctx, args)
        except _USAGE_ERROR as error:
            name = str(getattr(error, "option_name", ""))
            known = [word for param in self.get_params(ctx) for word in param.opts]
            if name[1:] in known:  # --k in place of -k
                error.message = f"{error.message.rstrip('.')}. Did you mean {name[1:]}?"
            elif "unexpected extra argument" in error.message:
                named = " ".join(_list_words(self, ctx)[1:])
                taken = f"{named} and options" if named else "options only"
                so_far = error.message.rstrip(".")
                error.message = f"{so_far}. The command takes {taken}: see --help."
            raise

    def collect_usage_pieces(self, ctx: Click) -> list[str]:
        """Return the words of the usage line."""
        return _list_words(self, ctx)

    def format_options(self, ctx: Click, formatter: Click) -> None:
        """Write arguments and options in groups."""
        _write_params(self, ctx, formatter)


class Group(TyperGroup):
    """A group of commands with our help page; the name of a command may have two words."""

    def resolve_command(self, ctx: Click, args: list[str]) -> Click:
        """Return the command that arguments name."""
        words = " ".join(args[:2])
        return super().resolve_command(ctx, [words, *args[2:]] if words in self.commands else args)

    def format_options(self, ctx: Click, formatter: Click) -> None:
        """Write options, then commands."""
        _write_params(self, ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(limit=200)) for name, each in self.commands.items()]
            )
        if ctx.parent is None:
            with formatter.section("What to use"):
                formatter.write_dl(
                    [(use, f"I have {have}. I want {want}.") for have, want, use in CHOICES]
                )


def _list_words(command: Click, ctx: Click) -> list[str]:
    arguments = [p for p in command.get_params(ctx) if p.param_type_name == "argument"]
    return ["[OPTIONS]", *(_get_metavar(argument) for argument in arguments)]


def _write_params(command: Click, ctx: Click, formatter: Click) -> None:
    groups: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        if param.param_type_name == "argument":
            title, term = "Arguments", _get_metavar(param)
        else:
            title = getattr(param, "rich_help_panel", None) or "Options"
            term = " / ".join([", ".join(param.opts), *param.secondary_opts])
            term += "" if _is_flag(param) else f" {_get_metavar(param)}"
        groups.setdefault(title, []).append((term, _describe(param)))
    for title, rows in groups.items():
        with formatter.section(title):
            formatter.write_dl(rows)


def _is_flag(param: Click) -> bool:
    return bool(getattr(param, "is_flag", False))


def _get_metavar(param: Click) -> str:
    return param.metavar or param.name.upper()


def _describe(param: Click) -> str:
    """Return the help of a parameter, and whether it is required, a flag, or has a default."""
    text = getattr(param, "help", None) or _ARGUMENTS.get(param.metavar, "")
    default = getattr(param.default, "value", param.default)
    if param.required:
        return f"{text}  [required]" if param.param_type_name == "option" else text
    if _is_flag(param):
        if default is None or not param.secondary_opts:  # None: neither of the two
            return f"{text}  [flag]"
        return f"{text}  [flag, default: {(param.opts if default else param.secondary_opts)[0]}]"
    if default is None or callable(default) or default == [] or not param.show_default:
        return text
    return f"{text}  [default: {default}]"
