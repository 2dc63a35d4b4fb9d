"""``mdaml adapt``: learn a map of query vectors from relevant pairs in files."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from mdaml._typing import Params
from mdaml.cli import _options as options
from mdaml.cli._help import make_option
from mdaml.cli._models import load_model, parse_params
from mdaml.cli._retrieval import (
    ClickColumns,
    Clicks,
    Documents,
    DocumentVectors,
    PerhapsRelevant,
    Propensities,
    Queries,
    QueryVectors,
    SkipUnknown,
    read_click_log,
    read_search,
)
from mdaml.cli._screen import CommandError, Screen, convert_errors, replace_output, run_command

if TYPE_CHECKING:
    from mdaml.retrieval import QueryAdapter

_HELP = {
    "--out": "Where to write: .mdaml, .safetensors, .onnx, .npy, or a folder for "
    "sentence-transformers, whose name has no suffix.",
    "--similarity": "How the index ranks documents.",
    "--rank": "Learn I + U V^T of this rank. By default any matrix.",
    "--symmetric": "Map documents too: they must be stored again.",
    "--anchor": "How strongly the map is kept near the identity. By default chosen on held-out "
    "queries.",
    "--device": "cuda, cpu or auto for torch. By default NumPy.",
    "--param": "n_negatives, max_iter or tol of QueryAdapter, such as tol=1e-4; repeat the option "
    "for more.",
    "--start": "A model of mdaml adapt to start from, such as that of a shorter log: with --anchor "
    "the same result in fewer steps.",
}


_option = partial(make_option, _HELP)
_Out = Annotated[Path, _option("--out", "MODEL", show_default=False)]
_Similarity = Annotated[Literal["cosine", "dot", "euclidean"], _option("--similarity")]
_Rank = Annotated[int | None, _option("--rank", min=1)]
_Symmetric = Annotated[bool, _option("--symmetric")]
_Anchor = Annotated[float | None, _option("--anchor", min=0.0)]
Device = Annotated[str | None, _option("--device")]
_Param = Annotated[list[str] | None, _option("--param", "NAME=VALUE")]
_Start = Annotated[Path | None, _option("--start", "MODEL")]
PARAMETERS = ("n_negatives", "max_iter", "tol")  # without an option of their own


def adapt(
    queries: Queries,
    documents: Documents,
    out: _Out,
    relevant: PerhapsRelevant = None,
    clicks: Clicks = None,
    columns: ClickColumns = None,
    propensities: Propensities = None,
    similarity: _Similarity = "cosine",
    rank: _Rank = None,
    symmetric: _Symmetric = False,
    anchor: _Anchor = None,
    device: Device = None,
    param: _Param = None,
    start: _Start = None,
    query_vectors: QueryVectors = None,
    document_vectors: DocumentVectors = None,
    skip_unknown: SkipUnknown = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Learn a map of query vectors that brings relevant documents to the top, and save it.

    Stored documents do not change. If nothing beats the original vectors on held-out queries, the
    command says so and the map changes nothing.

    For example: mdaml adapt queries.jsonl corpus.jsonl qrels.tsv --out faq.mdaml
    or, from a log: mdaml adapt queries.jsonl corpus.jsonl --clicks log.csv --out faq.mdaml
    """
    with run_command(as_json) as screen, ExitStack() as resources:
        screen.document["command"] = "adapt"
        model = _make_adapter(start, parse_params(param)).set_params(
            rank=rank,
            similarity=similarity,
            symmetric=symmetric,
            anchor="auto" if anchor is None else anchor,
            device=device,
            random_state=seed,
        )
        files_of = _check_supervision(relevant, clicks, propensities, columns)
        files = (queries, documents, *files_of)
        vectors = (query_vectors, document_vectors)
        part = resources.enter_context(_output(out, (*files, *vectors)))
        if clicks:
            asked, stored, rows = read_click_log(files, vectors, columns, skip_unknown, screen)
        else:
            pairs = (queries, documents, files_of[0])
            asked, stored, rows = read_search(pairs, vectors, skip_unknown, screen)
        began = time.perf_counter()
        with screen.follow_work("learning"), screen.collect_warnings(), convert_errors(ImportError):
            if not clicks:
                model.fit(asked.X, stored.X, rows)
            else:
                given = _split_numbers(propensities)
                model.fit(asked.X, stored.X, clicks=rows, propensities=given)
        _describe(model, time.perf_counter() - began, screen)
        model.set_params(device=None, warm_start=False)  # of no use to who loads it
        _write(model, part, out.suffix.lower())
        screen.add_fact("model", str(out), str(out))
        screen.print_facts()


def _make_adapter(start: Path | None, params: Params) -> "QueryAdapter":
    """Return an adapter with these parameters and, if wanted, the map of another one."""
    from mdaml.retrieval import QueryAdapter

    for name in params:
        if name not in PARAMETERS:
            raise CommandError(
                f"--param {name}: {', '.join(PARAMETERS)} can be set so. Others have options of "
                "their own."
            )
    if start is None:
        return QueryAdapter(**params)
    model, _ = load_model(start)
    if not isinstance(model, QueryAdapter):
        raise CommandError(f"--start {start}: this is a {type(model).__name__}, not an adapter.")
    fresh = QueryAdapter(warm_start=True, **params).get_params()
    return model.set_params(**fresh)


def _check_supervision(
    relevant: Path | None,
    clicks: list[Path] | None,
    propensities: str | None,
    columns: str | None,
) -> list[Path]:
    """Return the file of pairs or those of clicks; one of both is wanted."""
    if (relevant is None) == (not clicks):
        raise CommandError(
            "Give either RELEVANT, a file of pairs, or --clicks, a log of what was shown."
        )
    if propensities is not None and not clicks:
        raise CommandError("--propensities are of the positions of a log: give --clicks too.")
    if columns is not None and not clicks:
        raise CommandError("--columns are those of a log: give --clicks too.")
    return clicks or [relevant for relevant in (relevant,) if relevant is not None]


def _split_numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise CommandError(
            f"--propensities must be numbers with commas between them, got {text!r}."
        ) from None


def _describe(model: "QueryAdapter", seconds: float, screen: Screen) -> None:
    """Say what was learned, and what held-out queries say of it."""
    held_out = model.held_out_
    if len(model.propensities_):
        shown = ", ".join(f"{value:.2f}" for value in model.propensities_[:10])
        screen.add_fact("propensities", shown, model.propensities_.tolist())
    outcome = f"strength {model.strength_:g}" if model.improved_ else "no change"
    screen.add_fact("map", f"{outcome}, {seconds:.1f} s", {"improved": model.improved_})
    screen.add_fact("test", model.summary().splitlines()[1], model.summary())
    screen.document |= {"seconds": seconds, "strength": str(model.strength_)}
    screen.document["held_out"] = {
        key: None if value != value else value for key, value in held_out.items()
    }


_SUFFIXES = (".mdaml", ".safetensors", ".onnx", ".npy")


def _output(out: Path, inputs: Sequence[Path | None]) -> AbstractContextManager[Path]:
    """Refuse a name that cannot be written, before the work; return where to write.

    A file takes its place once it is complete; a folder is written to where it is.
    """
    if out.suffix:
        return replace_output(out, _SUFFIXES, inputs=inputs)
    if out.exists() and not out.is_dir():
        raise CommandError(f"--out: cannot write {out}: this is a file, and a folder is wanted.")
    return nullcontext(out)


def _write(model: "QueryAdapter", part: Path, suffix: str) -> None:
    import numpy as np

    with convert_errors(ImportError):
        if not suffix:
            model.to_sentence_transformers(part)
        elif suffix == ".mdaml":
            model.save(part)
        elif suffix == ".safetensors":
            model.to_safetensors(part)
        elif suffix == ".onnx":
            model.to_onnx(part)
        else:
            with part.open("wb") as file:
                np.save(file, model.components_)
