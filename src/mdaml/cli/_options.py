"""Arguments and options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer


def _column(name: str, metavar: str, text: str) -> Any:
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel="Columns of DATA")


def _comparisons(name: str, text: str, metavar: str | None = "FILE") -> Any:
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel="Comparisons")


def method_option(*names: str, **settings: Any) -> Any:
    """Return an option of the panel that chooses the method and its parameters."""
    return typer.Option(*names, rich_help_panel="Method", **settings)


class Method(StrEnum):
    """Names of the estimators: those of their classes in lower case, with hyphens."""

    MDAML = "mdaml"
    MDAMLCV = "mdamlcv"
    LMNN = "lmnn"
    GMML = "gmml"
    KISSME = "kissme"
    DML_EIG = "dml-eig"
    DMLMJ = "dmlmj"
    LFDA = "lfda"
    DML_DC = "dml-dc"
    EUCLIDEAN = "euclidean"


_DATA = "Table of vectors, one a row: .csv, .parquet or .npy."
Data: TypeAlias = Annotated[Path, typer.Argument(metavar="DATA", help=_DATA, show_default=False)]
_MODEL = "Model that mdaml fit or mdaml search wrote."
Model: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL", help=_MODEL, show_default=False)]
ModelOut: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="MODEL",
        help="Where to write the model; the name ends in .mdaml.",
        show_default=False,
    ),
]
Id: TypeAlias = Annotated[
    str | None,
    _column(
        "--id",
        "COLUMN",
        "Column that names the rows. By default the column 'id', if there is one; otherwise rows "
        "are numbers, from 0. With .npy data: an .npy file of names.",
    ),
]
Labels: TypeAlias = Annotated[
    str | None,
    _column(
        "--labels",
        "COLUMN",
        "Column of class labels, empty or -1 where unknown. With .npy data: an .npy file.",
    ),
]
Drop: TypeAlias = Annotated[
    list[str] | None,
    _column(
        "--drop",
        "COLUMNS",
        "Columns to leave out, separated by commas. What is learned from must be numbers; a model "
        "finds its columns again by name.",
    ),
]
Triplets: TypeAlias = Annotated[
    list[Path] | None, _comparisons("--triplets", "Columns a,b,c: a is nearer to b than to c.")
]
Pairs: TypeAlias = Annotated[
    list[Path] | None,
    _comparisons("--pairs", "Columns a,b,label: label 1 if a and b are similar, -1 if not."),
]
Quadruplets: TypeAlias = Annotated[
    list[Path] | None,
    _comparisons("--quadruplets", "Columns a,b,c,d: a and b are nearer than c and d."),
]
Mixed: TypeAlias = Annotated[
    list[Path] | None,
    _comparisons(
        "--constraints",
        "Any mixture: columns kind,a,b,c,d,label. All four kinds of file may be .csv, .parquet or "
        ".npz, with a column weight, and each option may be repeated.",
    ),
]
SkipInvalid: TypeAlias = Annotated[
    bool,
    _comparisons(
        "--skip-invalid",
        "Leave out lines that are no comparison of rows of DATA, and count them.",
        None,
    ),
]
MethodName: TypeAlias = Annotated[
    Method,
    method_option(
        metavar="NAME",
        help="Method of learning. From comparisons or labels: mdaml, gmml, kissme, dml-eig, and "
        "euclidean, the baseline. From triplets or labels: mdamlcv, which also chooses its "
        "parameters. From labels: lmnn, dmlmj, lfda, dml-dc.",
    ),
]
Params: TypeAlias = Annotated[
    list[str] | None,
    method_option(
        "--param",
        metavar="NAME=VALUE",
        help="A parameter of the method, such as n_modes=5; repeat the option for more.",
    ),
]
Scale: TypeAlias = Annotated[
    bool,
    method_option(
        "--scale/--no-scale",
        help="Learn on features divided by their standard deviations. The saved model takes the "
        "features as they are.",
    ),
]
Seed: TypeAlias = Annotated[int, method_option(min=0, help="Same seed, same result.")]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON document to stdout, all else to stderr.")
]
