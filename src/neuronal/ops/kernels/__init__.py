"""Triton versions of what is slow on a GPU as many small operations; chosen by device, tested against the plain ones."""
