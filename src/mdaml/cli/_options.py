"""Arguments and options that several commands share."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from mdaml import estimators
from mdaml.cli._help import make_argument, make_option

if TYPE_CHECKING:
    from mdaml.estimators.base import MahalanobisTransformer

_HELP = {
    "DATA": "Table, one item per row: .csv or .tsv (also .gz), .xlsx, .parquet, .feather or .npy.",
    "MODEL": "Model that mdaml fit, search or adapt wrote, or that mdaml ask learned.",
    "--out": "Where to write the model: .mdaml, or .onnx for other programs, with the preparation "
    "of the columns inside.",
    "--compact/--no-compact": "Leave the weights of the training rows out of the model.",
    "--keep-rows": "With --labels: store the labelled rows in the model, so that predict needs no "
    "--train. Whoever has the model can then read them.",
    "--train": "Table of the labelled rows whose neighbours are looked for, such as that of fit.",
    "--duplicates": "What to do with rows whose id was there before: refuse the table, or drop "
    "them.",
    "--id": "Column that names the rows. By default the column 'id', if there is one; otherwise "
    "rows are numbered from 0. With .npy data: an .npy file of names.",
    "--labels": "Column of class labels, empty or -1 where unknown. With .npy data: an .npy file.",
    "--drop": "Columns to leave out, separated by commas. Columns to learn from must be numeric; "
    "the model finds them by name later.",
    "--missing": "What to do with empty cells: refuse the table, drop the row, or fill in the "
    "median of the column (for categories, the most frequent). The model remembers the choice.",
    "--categorical": "Columns that hold categories, separated by commas, or 'auto' for all columns "
    "of text: each category becomes a feature of zeros and ones. The model remembers them.",
    "--encoding": "Encoding of text files that are neither UTF-8 nor UTF-16, such as cp1252 from "
    "Excel. The model remembers it.",
    "--na": "Texts that mean an empty cell, such as k.A., separated by commas, beside NA, null, ? "
    "and the like. The model remembers them.",
    "--triplets": "Columns a,b,c: a is nearer to b than to c.",
    "--pairs": "Columns a,b,label: label 1 if a and b are similar, -1 if not.",
    "--quadruplets": "Columns a,b,c,d: a and b are nearer than c and d.",
    "--constraints": "Any mixture: columns kind,a,b,c,d,label. All four kinds of file can be "
    "tables like DATA or .npz, can have a column weight, and each option can be repeated.",
    "--columns": "Names of these columns in your files, if they differ, such as "
    "anchor,closer,farther with --triplets.",
    "--form": "Form of the answers in --constraints: choices, odd-one-out, picks, rankings, votes, "
    "grades or positives; or the program that wrote them: salmon, things, jspsych or splink.",
    "--skip-invalid": "Skip lines that do not compare rows of DATA, and count them.",
    "--method": "Learning method. From comparisons or labels: mdaml, mdamlcv (also chooses its "
    "parameters), localmdaml (places for kinds of things), gmml, kissme, dml-eig and euclidean "
    "(the baseline). From labels only: lmnn, dmlmj, lfda, dml-dc.",
    "--param": "A parameter of the method, such as n_modes=5; repeat the option for more.",
    "--scale/--no-scale": "Learn on features divided by their standard deviations, unless all rows "
    "have unit length, as embeddings have. The saved model takes the features as they are.",
    "--estimate/--no-estimate": "With --labels, also fit with some rows held out, to report how "
    "many of them get the right label. mdaml and mdamlcv do so in any case, to choose their "
    "parameters.",
    "--seed": "Random seed; the same seed gives the same result.",
    "--grid": "Values to try for a parameter; repeat the option for more parameters. All "
    "combinations are tried. By default a grid that suits the method.",
    "--folds": "Number of folds, each held out once.",
    "--hold-out": "Hold out comparisons, or points with all their comparisons, to see how the "
    "metric does on new ones. With --labels, points are always held out.",
    "--who": "Column of the comparisons that says who gave each answer. fit weighs the answers of "
    "each person by how often they are right, unless --kinds is given.",
    "--kinds": "With --who: kinds of people who look at different things, a number, or 'auto' to "
    "choose by held-out answers. The model has a metric for each kind and person. Takes many "
    "times longer.",
    "--raw": "Write ids to .csv unchanged. By default, ids that a spreadsheet would read as a "
    "formula, such as =1+1, get a ' in front.",
    "--json": "Print one JSON document to stdout, and everything else to stderr.",
}


_option = partial(make_option, _HELP)
# Estimators by their names in lower case, with a hyphen before a suffix: dml-eig, dml-dc.
METHODS = {re.sub("^DML(?=[a-z])", "DML-", name).lower(): name for name in estimators.__all__}


def get_class(method: str) -> "type[MahalanobisTransformer]":
    """Return the estimator of a method."""
    found: type[MahalanobisTransformer] = getattr(estimators, METHODS[method])
    return found


def _check_method(name: str) -> str:
    """Return the name of a method, which may be written as in Python: MDaML, DMLeig."""
    plain = name.lower().replace("-", "")
    found = [known for known in METHODS if known.replace("-", "") == plain]
    if not found:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(METHODS)}.")
    return found[0]


_Files: TypeAlias = list[Path] | None
_Texts: TypeAlias = list[str] | None
_COLUMNS, _COMPARISONS, _METHOD = "Columns of DATA", "Comparisons", "Method"

Data: TypeAlias = Annotated[Path, make_argument("DATA", _HELP["DATA"])]
Model: TypeAlias = Annotated[Path, make_argument("MODEL", _HELP["MODEL"])]
ModelOut: TypeAlias = Annotated[Path, _option("--out", "MODEL", show_default=False)]
Id: TypeAlias = Annotated[str | None, _option("--id", "COLUMN", _COLUMNS)]
Labels: TypeAlias = Annotated[str | None, _option("--labels", "COLUMN", _COLUMNS)]
Drop: TypeAlias = Annotated[_Texts, _option("--drop", "COLUMNS", _COLUMNS)]
MissingRule: TypeAlias = Annotated[
    Literal["error", "drop", "median"], _option("--missing", "error|drop|median", _COLUMNS)
]
Duplicates: TypeAlias = Annotated[
    Literal["error", "drop"], _option("--duplicates", "error|drop", _COLUMNS)
]
Encoding: TypeAlias = Annotated[str | None, _option("--encoding", "NAME", _COLUMNS)]
Na: TypeAlias = Annotated[_Texts, _option("--na", "TEXTS", _COLUMNS)]
Categorical: TypeAlias = Annotated[_Texts, _option("--categorical", "COLUMNS", _COLUMNS)]
Triplets: TypeAlias = Annotated[_Files, _option("--triplets", "FILE", _COMPARISONS)]
Pairs: TypeAlias = Annotated[_Files, _option("--pairs", "FILE", _COMPARISONS)]
Quadruplets: TypeAlias = Annotated[_Files, _option("--quadruplets", "FILE", _COMPARISONS)]
Mixed: TypeAlias = Annotated[_Files, _option("--constraints", "FILE", _COMPARISONS)]
AnswerColumns: TypeAlias = Annotated[str | None, _option("--columns", "NAMES", _COMPARISONS)]
AnswerForm: TypeAlias = Annotated[str | None, _option("--form", "NAME", _COMPARISONS)]
SkipInvalid: TypeAlias = Annotated[bool, _option("--skip-invalid", None, _COMPARISONS)]
MethodName: TypeAlias = Annotated[
    str,
    _option(
        "--method",
        "NAME",
        _METHOD,
        callback=_check_method,
        autocompletion=lambda incomplete: [n for n in METHODS if n.startswith(incomplete)],
    ),
]
Params: TypeAlias = Annotated[_Texts, _option("--param", "NAME=VALUE", _METHOD)]
Scale: TypeAlias = Annotated[bool, _option("--scale/--no-scale", None, _METHOD)]
Estimate: TypeAlias = Annotated[bool, _option("--estimate/--no-estimate", None, _METHOD)]
Seed: TypeAlias = Annotated[int, _option("--seed", "N", _METHOD, min=0)]
Grid: TypeAlias = Annotated[_Texts, _option("--grid", "NAME=V1,V2,...", _METHOD)]
Folds: TypeAlias = Annotated[int, _option("--folds", "N", _METHOD, min=2)]
HeldOut: TypeAlias = Annotated[
    Literal["comparisons", "points"], _option("--hold-out", "comparisons|points", _METHOD)
]
Compact: TypeAlias = Annotated[bool, _option("--compact/--no-compact", None)]
KeepRows: TypeAlias = Annotated[bool, _option("--keep-rows", None)]
Train: TypeAlias = Annotated[Path | None, _option("--train", "FILE")]
Votes: TypeAlias = Annotated[
    int, typer.Option("-k", metavar="N", min=1, help="Neighbours that vote for a label.")
]
Who: TypeAlias = Annotated[str | None, _option("--who", "COLUMN", _COMPARISONS)]
Person: TypeAlias = Annotated[
    str | None,
    typer.Option("--who", metavar="PERSON", help="Of a model with --kinds: by whose metric."),
]
Kind: TypeAlias = Annotated[
    int | None,
    typer.Option("--kind", metavar="N", help="Of a model with --kinds: by the metric of a kind."),
]
Kinds: TypeAlias = Annotated[str | None, _option("--kinds", "N|auto", _METHOD)]
Raw: TypeAlias = Annotated[bool, _option("--raw", None)]
Json: TypeAlias = Annotated[bool, _option("--json", None)]
