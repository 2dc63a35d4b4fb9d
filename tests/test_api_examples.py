"""Every public name says what it takes and what it returns, and shows it.

pytest runs the examples themselves, as doctests of ``src``.
"""

import dataclasses
import importlib
import inspect
from functools import cache

from numpydoc import docscrape
from numpydoc import validate as numpydoc_validate

MODULES = [
    "mdaml",
    "mdaml.ask",
    *("mdaml.constraints", "mdaml.datasets", "mdaml.distributed", "mdaml.features"),
    *("mdaml.inspection", "mdaml.model_selection", "mdaml.people", "mdaml.plot"),
    "mdaml.retrieval",
]
# Ways to make Constraints of arrays that are known to be right; for this package.
INSIDE = {f"Constraints.{name}" for name in ("about", "borrow", "of_quadruplets", "of_triplets")}
CHECKS = {
    # sections: known, in order, not empty
    *("GL03", "GL05", "GL06", "GL07", "GL08", "SS01", "SS02", "SS03", "SS04", "SS05"),
    # parameters: none unknown, in the order of the signature, each with a type and a description
    *("PR02", "PR03", "PR04", "PR05", "PR07", "PR10"),
    # results are described, and there is an example
    *("RT01", "RT03", "YD01", "EX01"),
    # there is a "See Also", and what it names is described
    *("SA01", "SA04"),
}
# What a function returns, described on the page of the function.
RESULTS = {"ConstraintCounts", "DatasetRecord", "InvalidLine", "RetrievalScores", "Split"}


def members(path, cls):
    """Methods of a class that this package defines, inherited ones too, by their paths."""
    for name in dir(cls):
        if name.startswith("_"):
            continue
        found = getattr(cls, name)
        is_ours = getattr(found, "__module__", "").startswith("mdaml")
        if callable(found) and is_ours and not inspect.isclass(found):
            yield f"{path}.{name}", found


def public():
    """Return public classes, functions and methods by their paths, each home once."""
    things, homes = {}, set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if not callable(thing):
                continue  # __version__ and CATEGORIES have no docstring
            found = {f"{module_name}.{name}": thing}
            if inspect.isclass(thing):
                found |= members(f"{module_name}.{name}", thing)
            for path, each in found.items():
                home = (each.__module__, each.__qualname__)
                if home not in homes and each.__qualname__ not in INSIDE:
                    homes.add(home)
                    things[path] = each
    return things


PUBLIC = public()


def test_the_list_holds_inherited_methods_and_those_that_come_and_go():
    assert {"mdaml.MDaML.partial_fit", "mdaml.PairVerifier.predict_proba"} <= set(PUBLIC)
    methods = {path.rpartition(".")[2] for path in PUBLIC}
    assert {"transform", "score_triplets", "to_faiss", "to_onnx", "to_torch", "embed"} <= methods
    assert len(PUBLIC) > 90


def test_docstrings_are_complete():
    wrong = {path: codes for path in PUBLIC if (codes := faults(path) - {"SA01"})}
    assert wrong == {}


def test_classes_and_functions_name_their_relatives():
    named = [path for path in PUBLIC if path.rpartition(".")[0] in MODULES]
    assert len(named) > 40
    others = [path for path in named if path.rpartition(".")[2] not in RESULTS]
    assert [path for path in others if "SA01" in faults(path)] == []


@cache
def faults(path):
    """Codes of the checks that a docstring does not pass."""
    yields = "Yields\n" in inspect.getdoc(PUBLIC[path])
    found = {code for code, _ in numpydoc_validate.validate(path)["errors"]}
    return found & (CHECKS - {"RT01"} if yields else CHECKS)


def test_every_parameter_of_the_signature_is_documented():
    missing = {path: names for path in PUBLIC if (names := undocumented(PUBLIC[path]))}
    assert missing == {}


def undocumented(thing):
    """Parameters that the docstring does not name."""
    if getattr(thing, "_is_protocol", False):
        return []  # nothing is made of it
    doc = docscrape.NumpyDocString(inspect.getdoc(thing))
    sections = ["Parameters", "Attributes"] if dataclasses.is_dataclass(thing) else ["Parameters"]
    named = [name for section in sections for entry in doc[section] for name in _names(entry)]
    return [name for name in inspect.signature(thing).parameters if name not in {"self", *named}]


def test_no_example_is_left_out():
    assert [p for p, thing in PUBLIC.items() if "doctest: +SKIP" in inspect.getdoc(thing)] == []


def _names(entry):
    return [name.lstrip("*") for name in entry.name.split(", ")]
