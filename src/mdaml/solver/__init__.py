"""The paper: Algorithms 1 and 2 and their equations, wherever the data are kept.

Nothing here knows an array library or a place. Samples and comparisons are behind
:class:`~mdaml.solver.store.Store`; what is as small as the metric is plain array algebra.
"""
