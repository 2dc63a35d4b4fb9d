"""Choices: is a more like b or like c, one answer a line; they become votes of one person each."""

import numpy as np

from mdaml.constraints.forms import answers
from mdaml.constraints.forms.votes import find_faults

COLUMNS = ("a", "b", "c", "answer")


def parse(reader: "answers.LineReader", cells: list[list[str]]) -> answers.Parsed:
    """Return questions and votes of lines, and their faults."""
    questions, faults = reader.find_points(cells[:3])
    place, more = reader.find_places(cells[3], cells[1:3])
    votes = np.eye(3)[np.where(place >= 0, place, 2)]
    return (questions, votes), [*faults, *more, *find_faults(questions, votes)]
