"""The public interface: names with their parameters, commands with their options.

``python tests/interface.py VERSION`` records it in ``interface.json`` when a version is released.
"""

import importlib
import inspect
import json
import sys
from pathlib import Path

RECORD = Path(__file__).with_name("interface.json")
MODULES = (
    *("mdaml", "mdaml.ask", "mdaml.constraints", "mdaml.datasets", "mdaml.distributed"),
    *("mdaml.features", "mdaml.inspection", "mdaml.model_selection", "mdaml.people", "mdaml.plot"),
    "mdaml.retrieval",
)


def parameters(thing):
    return [name for name in inspect.signature(thing).parameters if name != "self"]


def members(cls):
    """Public methods and properties of a class, those of other libraries left out."""
    for name in dir(cls):
        if name.startswith("_"):
            continue
        value = inspect.getattr_static(cls, name)
        if isinstance(value, property):
            yield name, []
            continue
        method = getattr(cls, name, None)
        if callable(method) and method.__module__.startswith("mdaml"):
            yield name, parameters(method)


def python_interface():
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing, dotted = getattr(module, name), f"{module.__name__}.{name}"
            if inspect.isclass(thing):
                own = thing.__init__ is not object.__init__
                found[dotted] = parameters(thing.__init__) if own else []
                found |= {f"{dotted}.{member}": args for member, args in members(thing)}
            else:
                found[dotted] = parameters(thing) if callable(thing) else []
    return found


def command_interface(command=None, name="mdaml"):
    """Commands and their long options."""
    if command is None:
        import typer

        from mdaml.cli import build_app

        command = typer.main.get_command(build_app())
    found = {}
    for part, below in getattr(command, "commands", {}).items():
        found |= command_interface(below, f"{name} {part}")
    options = [word for parameter in command.params for word in parameter.opts]
    return found | {name: sorted(word for word in options if word.startswith("--"))}


def interface():
    return python_interface() | command_interface()


def gone(before, now):
    """Names, parameters and options that were there and are not, as ``owner: part``."""
    for name, parts in before.items():
        if name not in now:
            if name.rpartition(".")[0] not in before:  # a method goes with its class
                yield name
        else:
            yield from (f"{name}: {part}" for part in parts if part not in now[name])


if __name__ == "__main__":
    record = {"version": sys.argv[1], "interface": dict(sorted(interface().items()))}
    RECORD.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")
