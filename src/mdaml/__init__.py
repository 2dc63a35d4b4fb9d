"""Learn a distance from weak supervision."""

from importlib.metadata import version

from mdaml.estimators import MDaML

__version__ = version("mdaml")
__all__ = ["MDaML", "__version__"]
