"""What a conversion did, as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from neuronal.convert.convert import Change
from neuronal.report.tables import Table


def change_table(changes: Sequence[Change]) -> Table:
    """What became of the layers; those that went the same way share a row."""
    rows = []
    groups: dict[tuple[object, ...], list[Change]] = {}
    for change in changes:
        groups.setdefault((change.before, change.after, change.exact, _kind(change.note)), []).append(change)
    for alike in groups.values():
        first, last = alike[0], alike[-1]
        where = first.path or "(the model)"
        if len(alike) > 1:
            where += f" … {last.path} ({len(alike)})"
        note = first.note if len({change.note for change in alike}) == 1 else _kind(first.note)
        after = "" if first.after == first.before else first.after
        rows.append((where, first.before, after, "yes" if first.exact else "no", note))
    return Table("", ("where", "before", "after", "same", "note"), tuple(rows), 5)


def _kind(note: str) -> str:
    """A note without its numbers."""
    return re.sub(r"\d[\d.e+-]*", "…", note)
