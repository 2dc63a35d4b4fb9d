"""Holding out: which answers and rows belong together, and the one rule for every choice."""
