"""Attack for some minutes: ``python -m fuzz [MINUTES] [SEED]`` in the folder of the tests.

A case is drawn from its seed and number, which are printed where it fails; ``python -m fuzz SEED
PART NUMBER`` repeats one.
"""

import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np

from fuzz import Broken, calls, choices, commands, files, fits, interrupts

PARTS = {
    "fits": (fits.attack, 0.2),
    "calls": (calls.attack, 0.1),
    "files": (files.attack, 0.05),
    "tables": (files.attack_tables, 0.05),
    "commands": (commands.attack, 0.1),
    "signals": (commands.attack_by_signal, 0.1),
    "interrupts": (interrupts.attack, 0.15),
    "choices": (choices.attack, 0.25),
}
# What looks at all cases of a part together: a single one may be chance.
JUDGES = {"choices": choices.judge}
MEMORY = 8 << 30  # of this process and each that it starts, as by ulimit -v
write = partial(print, flush=True)


def run_part(name, seed, seconds, folder):
    """Run cases for so long; return how many there were, and how many broke a promise."""
    attack, start, outcomes, n_broken, n = PARTS[name][0], time.monotonic(), Counter(), 0, 0
    while time.monotonic() < start + seconds:
        try:
            outcomes[attack(np.random.default_rng([seed, n]), folder)] += 1
        except Broken as error:
            n_broken += 1
            write(f"BROKEN: python -m fuzz {seed} {name} {n}\n  {str(error)[:1000]}")
        n += 1
    for fault in JUDGES.get(name, lambda _: ())(outcomes):
        n_broken += 1
        write(f"BROKEN: {name}, all cases from seed {seed} together\n  {fault}")
    rest = ", ".join(f"{count} {what}" for what, count in sorted(outcomes.items()))
    write(f"{name}: {n} cases in {time.monotonic() - start:.0f} s, {n_broken} broken ({rest})")
    return n_broken


def main(words):
    """Run all parts, or one case."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        if len(words) == 3:
            seed, name, n = int(words[0]), words[1], int(words[2])
            try:
                write(PARTS[name][0](np.random.default_rng([seed, n]), Path(folder)))
            except Broken:
                traceback.print_exc()
            return 0
        minutes = float(words[0]) if words else 10.0
        seed = int(words[1]) if len(words) > 1 else time.time_ns() % 2**32
        write(f"seed {seed}, {minutes:g} minutes, {MEMORY >> 30} GiB of memory")
        n_broken = 0
        for name, (_, share) in PARTS.items():
            place = Path(folder, name)
            place.mkdir()
            n_broken += run_part(name, seed, 60 * minutes * share, place)
    return int(n_broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
