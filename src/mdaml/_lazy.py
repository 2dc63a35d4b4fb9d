"""Names of a package that are imported when they are first used.

``import mdaml`` and ``mdaml --help`` must not wait for scikit-learn.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def attach(
    package: str, homes: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    ``homes`` says for each name in which module it is, ``modules`` are parts of the package.
    """
    modules = frozenset(modules)

    def get(name: str) -> object:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def list_names() -> list[str]:
        return sorted({*homes, *modules, *import_module(package).__all__})

    return get, list_names
