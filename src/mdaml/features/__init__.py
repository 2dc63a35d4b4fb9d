"""Features of images, as in the paper's image data sets: GIST and histograms of Lab colours.

Image files and Lab colours need ``pip install 'mdaml[images]'``; GIST of arrays needs no extra.
"""

from mdaml.features._color import lab_histogram
from mdaml.features._gist import gist
from mdaml.features._images import list_images
from mdaml.features._images import unreadable as unreadable

__all__ = ["gist", "lab_histogram", "list_images"]
