"""Parse a comma-separated table of numbers, faster than ``numpy.loadtxt`` and to the last bit."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Places: TypeAlias = NDArray[np.int64]

_COMMA, _NEWLINE, _POINT, _ZERO = b",\n.0"

# An integer below 10**15 divided by a power of ten up to 10**15: both are exact in float64, so the
# quotient is the float64 nearest to the decimal fraction, which is what float() returns.
_EXACT_DIGITS = 15
_POWERS = np.array([10.0**n for n in range(_EXACT_DIGITS + 1)])

# Fields parsed at a time: their few arrays stay in the cache.
_BLOCK = 1 << 15


def parse_table(text: bytes) -> NDArray[np.float64]:
    """Return the numbers below the header line, one row per line; each line ends in a newline.

    The first character of all fields is read at once, then the second, and so on. Fields that are
    more than digits and a point (signs, exponents) or too long for that are left to ``float``.
    """
    header, _, body = text.partition(b"\n")
    characters = np.frombuffer(body, np.uint8)
    last = np.flatnonzero((characters == _COMMA) | (characters == _NEWLINE))
    first = np.concatenate([[0], last[:-1] + 1])
    values = np.empty(len(last))
    for start in range(0, len(last), _BLOCK):
        block = slice(start, start + _BLOCK)
        values[block], plain = _parse_plain(characters, first[block], last[block])
        for i in (start + np.flatnonzero(~plain)).tolist():
            values[i] = float(body[first[i] : last[i]])
    return values.reshape(-1, header.count(b",") + 1)


def _parse_plain(
    characters: Bytes, first: Places, last: Places
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the values of the fields, and which of them are digits with a point at most."""
    width = last - first
    digits = np.zeros(len(first), np.int64)
    n_digits = np.zeros(len(first), np.uint8)
    n_decimals = np.zeros(len(first), np.uint8)
    has_point = np.zeros(len(first), bool)
    for place in range(min(int(width.max()), _EXACT_DIGITS)):
        # A field that has ended repeats the separator behind it, which is no digit.
        character = characters[np.minimum(first + place, last)]
        digit = character - np.uint8(_ZERO)  # wraps around below zero
        is_digit = digit < 10
        digits = np.where(is_digit, 10 * digits + digit, digits)
        n_digits += is_digit
        n_decimals += is_digit & has_point
        has_point |= character == _POINT
    # What counted less than its width has a second point, another character or too many places.
    plain = (n_digits > 0) & (n_digits + has_point == width)
    return digits / _POWERS[n_decimals], plain
