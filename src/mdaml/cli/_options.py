"""Arguments and options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

DataArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table of vectors, one a row: .csv, .parquet or .npy.",
        show_default=False,
    ),
]
ModelArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="Model that mdaml fit or mdaml search wrote.",
        show_default=False,
    ),
]
IdOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="Column that names the rows. By default the column 'id', if there is one; otherwise "
        "rows are numbers, from 0. With .npy data: an .npy file of names.",
        rich_help_panel="Columns of DATA",
    ),
]
LabelsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="COLUMN",
        help="Column of class labels, empty or -1 where unknown. With .npy data: an .npy file.",
        rich_help_panel="Columns of DATA",
    ),
]
DropOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="COLUMNS",
        help="Columns to leave out, separated by commas. What is learned from must be numbers; a "
        "model finds its columns again by name.",
        rich_help_panel="Columns of DATA",
    ),
]
_COMPARISONS = "Comparisons"
TripletsOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--triplets",
        metavar="FILE",
        help="Columns a,b,c: a is nearer to b than to c.",
        rich_help_panel=_COMPARISONS,
    ),
]
PairsOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--pairs",
        metavar="FILE",
        help="Columns a,b,label: label 1 if a and b are similar, -1 if not.",
        rich_help_panel=_COMPARISONS,
    ),
]
QuadrupletsOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--quadruplets",
        metavar="FILE",
        help="Columns a,b,c,d: a and b are nearer than c and d.",
        rich_help_panel=_COMPARISONS,
    ),
]
ConstraintsOption: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option(
        "--constraints",
        metavar="FILE",
        help="Any mixture: columns kind,a,b,c,d,label. All four kinds of file may be .csv, "
        ".parquet or .npz, with a column weight, and each option may be repeated.",
        rich_help_panel=_COMPARISONS,
    ),
]
SkipOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-invalid",
        help="Leave out lines that are no comparison of rows of DATA, and count them.",
        rich_help_panel=_COMPARISONS,
    ),
]
ParamOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME=VALUE",
        help="A parameter of the method, such as n_modes=5; repeat the option for more.",
        rich_help_panel="Method",
    ),
]
ScaleOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--scale/--no-scale",
        help="Learn on features divided by their standard deviations. The saved model takes the "
        "features as they are.",
        rich_help_panel="Method",
    ),
]
SeedOption: TypeAlias = Annotated[
    int,
    typer.Option(
        min=0,
        help="Same seed, same result.",
        rich_help_panel="Method",
    ),
]
ModelOut: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="MODEL",
        help="Where to write the model; the name ends in .mdaml.",
        show_default=False,
    ),
]
JsonOption: TypeAlias = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON document to stdout, all else to stderr."),
]


class Method(StrEnum):
    """Names of the estimators on the command line."""

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


MethodOption: TypeAlias = Annotated[
    Method,
    typer.Option(
        metavar="NAME",
        help="What learns. From comparisons or labels: mdaml, gmml, kissme, dml-eig, euclidean "
        "(which learns nothing). From triplets or labels: mdamlcv, which also chooses its "
        "parameters. From labels: lmnn, dmlmj, lfda, dml-dc.",
        rich_help_panel="Method",
    ),
]


def split_names(given: list[str] | None) -> tuple[str, ...]:
    """Return names that may be separated by commas, or given one by one."""
    return tuple(name.strip() for names in given or () for name in names.split(","))
