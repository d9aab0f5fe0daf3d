"""Questions of our own, which no table or figure of the papers asks; each is listed with the paper it is about."""

from importlib import import_module

from neuronal_papers.registry import PAPERS

# A paper lists its studies, which build on the paper: whichever is asked for first, papers are imported first.
for paper in PAPERS:
    import_module(f"neuronal_papers.{paper}")
