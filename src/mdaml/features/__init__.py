"""Images to the feature vectors of the paper's image sets: GIST, and histograms of Lab colours.

Arrays need no extra for GIST; image files and Lab colours need ``pip install 'mdaml[images]'``.
"""

from mdaml.features._color import lab_histogram
from mdaml.features._gist import gist
from mdaml.features._images import list_images

__all__ = ["gist", "lab_histogram", "list_images"]
