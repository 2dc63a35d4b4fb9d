"""Files: tables of numbers and text, saved models, other libraries' formats.

Knows no estimator and no command: what is read and written are arrays, names and plain values.
"""
