"""A slice of ``make fuzz``: a few seconds of every attack, the same cases each time."""

import contextlib
import warnings

import numpy as np
import pytest
from fuzz import Broken, calls, choices, commands, files, fits

WORDS = {"kept", "harmed", "warned", "same", "close", "refused"}

pytestmark = pytest.mark.needs("pandas", "pyarrow")


@pytest.mark.parametrize(
    ("attack", "n_cases"),
    [
        (fits.attack, 40),
        (calls.attack, 500),
        (files.attack, 200),
        pytest.param(files.attack_tables, 200, marks=pytest.mark.needs("openpyxl")),
        (commands.attack, 30),
        (choices.attack_duplicates, 5),
        (choices.attack_clicks, 5),
    ],
    ids=["fits", "calls", "files", "tables", "commands", "duplicates", "clicks"],
)
def test_attacks_break_no_promise(attack, n_cases, tmp_path):
    outcomes = set()
    for n in range(n_cases):
        try:
            outcomes.add(attack(np.random.default_rng([0, n]), tmp_path))
        except Broken as error:
            raise AssertionError(f"case {n}: {error}") from error
    assert len(outcomes) > 1 or attack in (choices.attack_duplicates, choices.attack_clicks)


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


@pytest.mark.parametrize(("n_harmed", "n_faults"), [(0, 0), (6, 0), (7, 1), (100, 1)])
def test_harm_is_judged_over_all_cases(n_harmed, n_faults):
    outcomes = {"coin_flips: MDaML harmed": n_harmed, "coin_flips: MDaMLCV kept": 100 - n_harmed}
    outcomes |= {"queries: harmed": 0, "queries: kept": 5, "swapped: MDaML warned": 50}
    assert len(list(choices.judge(outcomes))) == n_faults


@pytest.mark.parametrize("attack", [*choices.STATISTICAL, *choices.EXACT])
def test_attacks_on_choices_end_in_a_word_or_a_broken_promise(attack, tmp_path):
    with contextlib.suppress(Broken):  # make fuzz reports it
        assert attack(np.random.default_rng([0, 0]), tmp_path).split()[-1] in WORDS
