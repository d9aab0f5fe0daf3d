"""Tables and figures of what was timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

from rich.box import SIMPLE_HEAD
from rich.table import Table

from neuronal.bench import certify, kernel
from neuronal.bench.implicit import Measured
from neuronal.bench.layers import Timed
from neuronal.bench.train import Overhead, Preparation
from neuronal.report.figures import MARKERS, Drawing, blank, colour, plain_numbers


def layer_table(rows: Sequence[Timed], growth: Mapping[str, float]) -> Table:
    """Ratios to the plain layer with their quartiles, beside what was set as the limit."""
    title = f"3x3 convolutions, batch {rows[0].shape.batch}: forward + backward, against nn.Conv2d"
    drawn = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for head in ("layer", "shape"):
        drawn.add_column(head, no_wrap=True)
    for head in ("ms", "ratio", "quartiles", "limit"):
        drawn.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        time = row.time
        over = row.limit is not None and round(time.ratio, 2) > row.limit
        drawn.add_row(
            row.layer,
            str(row.shape),
            f"{1000 * time.seconds:.1f}",
            f"[red]{time.ratio:.3f}[/]" if over else f"{time.ratio:.3f}",
            f"{time.ratio_low:.3f}–{time.ratio_high:.3f}",
            "" if row.limit is None else f"{row.limit:.2f}",
        )
    powers = ", ".join(f"{name} {power:.2f}" for name, power in growth.items())
    drawn.caption = f"time grows like width to the power of (between the two widest): {powers}"
    drawn.caption_justify = "left"
    return drawn


def certify_table(rows: Sequence[certify.Timed]) -> Table:
    """What each kind of work costs, beside its limit and the verdicts that came out."""
    drawn = Table(title="certificates, two threads", box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    drawn.add_column("work")
    for head in ("number", "cost", "limit"):
        drawn.add_column(head, justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    for row in rows:
        verdicts = [row.certified, row.refuted, row.unknown]
        cost = f"{row.cost:.2f}"
        drawn.add_row(
            row.name + (f": {'/'.join(map(str, verdicts))}" if any(verdicts) else ""),
            f"{row.count:,}",
            f"[red]{cost}[/]" if row.cost > row.limit else cost,
            f"{row.limit:g}",
            row.unit,
        )
    drawn.caption = "behind the colon: certified/refuted/unknown"
    drawn.caption_justify = "left"
    return drawn


def implicit_table(rows: Sequence[Measured], power: float) -> Table:
    """Ratios to the plain convolution, beside the limits, with the residuals reached."""
    drawn = Table(title="implicit-bias Conv2d, kernel 5, against nn.Conv2d", box=SIMPLE_HEAD, pad_edge=False)
    drawn.title_justify = "left"
    drawn.add_column("batch, channels, side, λ", no_wrap=True)
    for head in ("ms", "ratio", "limit", "residual", "steps", "memory"):
        drawn.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        over = row.case.limit is not None and round(row.time.ratio, 1) > row.case.limit
        ratio = f"{row.time.ratio:.1f}"
        drawn.add_row(
            str(row.case),
            f"{1000 * row.time.seconds:.1f}",
            f"[red]{ratio}[/]" if over else ratio,
            "" if row.case.limit is None else f"{row.case.limit:g}",
            "" if row.case.iterations else f"{row.residual:.0e}",
            str(row.case.iterations) if row.case.iterations else f"{row.steps:.1f}",
            f"{row.memory:.1f}",
        )
    forward = 100 * mean(row.forward_share for row in rows)
    kinds = ", ".join(f"{kind} {100 * mean(row.spent[kind] for row in rows):.0f}%" for kind in rows[0].spent)
    drawn.caption = (
        f"forward + backward with input gradient, {forward:.0f}% of it forward; "
        f"time per row grows like N to the power of {power:.2f} "
        "from 16x16 to 128x128; residual: bound on the violation of the equation, of max(1, max|a|); "
        "once: one iteration in the place of a solve; "
        f"memory: peak beyond Conv2d's, in outputs of the layer. Time goes into {kinds}."
    )
    drawn.caption_justify = "left"
    return drawn


def train_table(rows: Sequence[Overhead], watched: Sequence[Overhead], preparation: Preparation) -> Table:
    """Ratios with their quartiles, beside what was set as the limit; and the share of the data."""
    title = "an epoch of fit, standard cnn: against a bare loop of the same steps"
    drawn = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    drawn.add_column("", no_wrap=True)
    drawn.add_column("images, batch", no_wrap=True)
    for head in ("ms per step", "ratio", "quartiles", "limit"):
        drawn.add_column(head, justify="right", no_wrap=True)
    for name, row in (*(("fit", row) for row in rows), *(("watched", row) for row in watched)):
        time = row.time
        over = round(time.ratio, 2) > row.limit
        drawn.add_row(
            name,
            str(row.case),
            f"{1000 * time.seconds / row.case.num_steps:.2f}",
            f"[red]{time.ratio:.3f}[/]" if over else f"{time.ratio:.3f}",
            f"{time.ratio_low:.3f}–{time.ratio_high:.3f}",
            f"{row.limit:.2f}",
        )
    time, case = preparation.time, preparation.case
    share = f"{100 * time.ratio:.1f}%"
    drawn.add_row(
        "data",
        str(case),
        f"{1000 * time.seconds / case.num_steps:.2f}",
        f"[red]{share}[/]" if time.ratio > preparation.limit else share,
        f"{100 * time.ratio_low:.1f}–{100 * time.ratio_high:.1f}%",
        f"{100 * preparation.limit:.0f}%",
    )
    drawn.caption = (
        "watched: with the probe hinge_motion, against fit without; data: preparing them, against all of fit; images of "
        f"{preparation.source}"
    )
    drawn.caption_justify = "left"
    return drawn


def kernel_table(rows: Sequence[kernel.Timed]) -> Table:
    """Ratios to plain Jacobians with their quartiles, and how far apart the kernels are."""
    title = "tangent kernels against plain torch.func Jacobians, contracted"
    drawn = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for head in ("network", "by", ""):
        drawn.add_column(head)
    for head in ("ms", "ratio", "quartiles", "apart"):
        drawn.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        time = row.time
        drawn.add_row(
            str(row.case),
            row.method,
            row.dtype.replace("float", "f"),
            f"{1000 * time.seconds:.1f}",
            f"{time.ratio:.2f}",
            f"{time.ratio_low:.2f}–{time.ratio_high:.2f}",
            f"{row.difference:.0e}",
        )
    return drawn


def cost_against_width(rows: Sequence[Timed]) -> Drawing:
    with blank("width") as sheet:
        for number, name in enumerate({row.layer: None for row in rows}):
            points = [(row.shape.width, 1000 * row.time.seconds) for row in rows if row.layer == name]
            marker = MARKERS[number % len(MARKERS)]
            sheet.axes.plot(*zip(*points, strict=True), color=colour(number), marker=marker, markersize=4, label=name)
        sheet.axes.set(xscale="log", yscale="log", xlabel="channels in and out", ylabel="forward + backward (ms)")
        sheet.axes.set_xticks(sorted({row.shape.width for row in rows}))
        plain_numbers(sheet.axes.xaxis)
        plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend()
    return Drawing(sheet.svg, "Cost against width", "Time of forward and backward over the number of channels.")
