"""MDaML with a row of its table of defaults, some cells of it replaced."""

from dataclasses import fields, replace
from inspect import signature

from mdaml import PRESETS, MDaML, Partners

# Eq. (7) of the paper, with neighbours where there are labels, and a start of the best scale.
EQ_7 = replace(PRESETS["paper"], n_modes=3, partners=Partners(), init_metric="auto")
ROWS = PRESETS | {"eq. 7": EQ_7}
ARGUMENTS = frozenset(signature(MDaML).parameters)
OF_PARTNERS = frozenset(field.name for field in fields(Partners))


def make_mdaml(row, n_modes="auto", **cells):
    """Return MDaML with a row of defaults, and with cells of it replaced, those of partners too.

    A cell that is an argument of MDaML is passed as one.
    """
    preset = ROWS[row]
    given = {name: cells.pop(name) for name in ARGUMENTS & set(cells)}
    partners = {name: cells.pop(name) for name in OF_PARTNERS & set(cells)}
    preset = replace(preset, partners=replace(preset.partners, **partners), **cells)
    return MDaML(n_modes, goal=preset, **given)
