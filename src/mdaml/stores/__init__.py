"""Where samples and comparisons live: in memory, in blocks, on a device, on a cluster.

All implement :class:`mdaml.solver.store.Store`; a fit is the same whichever it gets.
"""
