"""Compiled loops on plain arrays; every function shares its work among the threads of the machine.

One file for each kind of loop; import functions from there. The compiler is loaded by the first
call of a loop, not by an import. ``triton_pairs`` is for a GPU and needs torch and Triton.
"""
