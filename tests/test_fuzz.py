"""A slice of ``make fuzz``: a few seconds of every attack, the same cases each time."""

import time
import warnings

import numpy as np
import pytest
from fuzz import Broken, calls, commands, files, fits


@pytest.mark.parametrize(
    ("attack", "n_cases"),
    [(fits.attack, 40), (calls.attack, 500), (files.attack, 200), (commands.attack, 30)],
    ids=["fits", "calls", "files", "commands"],
)
def test_attacks_break_no_promise(attack, n_cases, tmp_path):
    start, outcomes = time.monotonic(), set()
    for n in range(n_cases):
        try:
            outcomes.add(attack(np.random.default_rng([0, n]), tmp_path))
        except Broken as error:
            raise AssertionError(f"case {n}: {error}") from error
        if time.monotonic() - start > 5.0 and n > 5:  # compiling takes what it takes
            break
    assert len(outcomes) > 1


def test_calls_without_nonsense_work():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for function, right in calls._right_calls():
            function(**right)


def test_a_broken_promise_is_found():
    class Wrong:
        def __init__(self):
            self.components_ = np.array([[np.inf]])

        def transform(self, X):
            return X

    with pytest.raises(Broken, match="components_ is not finite"):
        fits.check_model(Wrong(), np.ones((2, 1)), "a fit")
