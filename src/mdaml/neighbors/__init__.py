"""K nearest neighbours, exact or by cells, in memory, on a device or on shards.

Rows are sorted by class. ``bounds[i]`` holds the first place of the class of place i and the place
behind its last one; ``rows`` holds the number of each place in X, by which ties are broken. Nothing
here knows labels or constraints.
"""
