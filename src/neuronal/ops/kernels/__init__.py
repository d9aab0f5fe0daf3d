"""Triton versions of what is slow in plain torch on a GPU; triton is imported when one is first used."""
