"""Random attacks on the library and its commands; ``make fuzz`` runs them for ten minutes.

Every module has functions ``attack(rng, folder)``: one case each, drawn from a generator. They
return in a word what became of it, and raise :class:`Broken` where a promise of
``docs/reliability.md`` was broken.
"""


class Broken(Exception):  # noqa: N818 (the name of what it says)
    """A promise that was not kept."""


def check(kept, *what):
    """Raise unless a promise was kept."""
    if not kept:
        raise Broken(" ".join(map(str, what)))
