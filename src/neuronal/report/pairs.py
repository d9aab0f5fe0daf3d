"""The table of what can be proved between images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from neuronal.experiments.compare import Share
from neuronal.experiments.pairs import Pairs


def pairs_table(rows: Sequence[Pairs], data: str) -> Table:
    """One line per network and neuron, seeds added up; intervals are Wilson's, 95%."""
    title = f"{data}: is the class the same on the whole segment between two test images of one class?"
    drawn = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for head in ("network", "neuron"):
        drawn.add_column(head, no_wrap=True)
    heads = ("accuracy", "equal patterns", "share", "certified", "share [95%]", "refuted", "open", "ms", "first change")
    for head in (*heads, "third class"):
        drawn.add_column(head, justify="right", no_wrap=True)
    for group in grouped(rows):
        pattern, proved = total(r.same_pattern for r in group), total(r.certified for r in group)
        third = total(r.crossing.through_others for r in group)
        drawn.add_row(
            group[0].network,
            group[0].neuron,
            f"{100 * sum(r.accuracy for r in group) / len(group):.1f}%",
            f"{pattern.count:,}/{pattern.total:,}",
            f"{pattern.count / max(1, pattern.total):.1e}" if pattern.count else "0",
            f"{proved.count:,}/{proved.total:,}",
            percent_with_interval(proved),
            f"{sum(r.refuted for r in group):,}",
            f"{sum(r.unknown for r in group):,}",
            f"{1000 * sum(r.seconds for r in group) / len(group):.2f}",
            _mean([r.crossing.median_first for r in group if r.crossing.median_first is not None]),
            percent_with_interval(third),
        )
    seeds = sorted({row.seed for row in rows})
    drawn.caption = (
        f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''}, added up. Equal patterns: of all pairs of test images with one "
        "predicted class. Certified: of random pairs of one class, both classified right. First change and third class: "
        "from an image to its nearest neighbour of another class, where the class first changes (0 to 1), and how often "
        "another class comes between."
    )
    drawn.caption_justify = "left"
    return drawn


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.2f}" if values else "–"


def grouped(rows: Iterable[Pairs]) -> list[list[Pairs]]:
    """Rows of one network and neuron together, in the order they come."""
    groups: dict[tuple[str, str], list[Pairs]] = {}
    for row in rows:
        groups.setdefault((row.network, row.neuron), []).append(row)
    return list(groups.values())


def total(shares: Iterable[Share]) -> Share:
    many = list(shares)
    return Share(sum(s.count for s in many), sum(s.total for s in many))


def percent_with_interval(share: Share) -> str:
    low, high = share.interval
    return f"{100 * share.count / max(1, share.total):.2f} [{100 * low:.2f}, {100 * high:.2f}]"
