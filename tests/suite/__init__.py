"""The rules of the test suite, as plugins of pytest; the root ``conftest.py`` loads them."""
