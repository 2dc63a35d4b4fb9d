"""Collects tests while Python's search for cycles is off, which took most of that time.

Modules and tests live until the end. Frozen, they are not searched again when a test or pytest
itself asks for a search.
"""

import gc

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
