"""Learn a distance from weak supervision."""

from importlib.metadata import version

from mdaml.estimators import GMML, KISSME, Euclidean, MDaML

__version__ = version("mdaml")
__all__ = ["GMML", "KISSME", "Euclidean", "MDaML", "__version__"]
