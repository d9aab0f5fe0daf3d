"""Reproductions of the tables and figures of four papers, one folder per paper, one file per table or figure.

Built on what ``neuronal`` makes public; ``neuronal`` imports nothing of it.
"""
