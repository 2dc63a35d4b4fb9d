"""Same or different, decided by a learned distance and a threshold.

The code is in :mod:`mdaml.inspection`; this module keeps the public import path.
"""

from mdaml.inspection.calibration import SigmoidCurve, Tradeoff
from mdaml.inspection.verification import PairVerifier

__all__ = ["PairVerifier", "SigmoidCurve", "Tradeoff"]
