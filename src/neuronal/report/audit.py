"""An audit: what was measured and proved of a model, and how it shows itself in sentences and on a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from neuronal.core.files import make_writable, write_whole
from neuronal.core.records import Json, to_json
from neuronal.core.words import counted
from neuronal.data.catalogue import label_of
from neuronal.experiments.audit import Activity, Lipschitz, Network, Scaling, Segments
from neuronal.probes.boundary_distance import BoundaryDistance
from neuronal.probes.contrast import Contrast
from neuronal.probes.curvature import Curvature
from neuronal.probes.dead_units import DeadUnits
from neuronal.probes.jacobian import Jacobian
from neuronal.probes.zero_image import ZeroImage
from neuronal.report.document import Block, Bullets, Document, Figures, Section, Text
from neuronal.report.figures import Figure, blank, colour, plain_numbers
from neuronal.report.render_html import render_html, render_part
from neuronal.report.render_terminal import render_text
from neuronal.report.tables import Table

Found = TypeVar("Found")
TITLES = {
    "scaling": "Does the class depend on contrast?",
    "activity": "Can a layer fall silent?",
    "dead_units": "Units that are active on no input",
    "segments": "Between two inputs of one class",
}


@dataclass(frozen=True, repr=False)
class Audit:
    """What was measured and proved of a model. Prints as sentences; a notebook shows the same.

    Args:
        model: Its source, or the class of the module.
        data: Name or path of the data.
        classes: Of the data.
        sections: By name a record, such as :class:`neuronal.probes.Contrast`, or why there are no numbers.
        seconds: What each section took.
        environment: Where it was measured.
        folder: For the page.
    """

    model: str
    data: str
    classes: tuple[str, ...]
    sections: Mapping[str, object]
    seconds: Mapping[str, float]
    environment: Mapping[str, str]
    folder: Path = Path()

    @property
    def title(self) -> str:
        return f"Audit of {self.model} on {label_of(self.data)}"

    @cached_property
    def findings(self) -> list[str]:
        """What was found, in sentences, most important first."""
        return audit_sentences(self.sections, label_of(self.data))

    def to_json(self) -> Json:
        """What ``neuronal audit --json`` prints, but for the place of the page."""
        names = ("model", "data", "sections", "seconds", "environment")
        return {name: to_json(getattr(self, name)) for name in names}

    def write_page(self, path: str | Path | None = None) -> Path:
        """Writes the page, and its numbers as JSON beside it, and returns its place.

        Args:
            path: The file, ``.html``; called after model and data, in the folder of audits, if left out.
        """
        if path is None:
            file = Path(self.model)
            # Trainings all call their model model.safetensors; their folders differ.
            is_file = file.is_file()
            name = (
                f"{file.resolve().parent.name}-{file.stem}"
                if is_file
                else self.model.replace(":", "-").replace("/", "-")
            )
            path = self.folder / f"{name}-{label_of(self.data)}.html"
        page = Path(path)
        make_writable(page.parent)
        write_whole(page.with_suffix(".json"), json.dumps(self.to_json(), indent=1) + "\n")
        write_whole(page, render_html(audit_page(self)))
        return page

    def __repr__(self) -> str:
        return f"<{self.title}>"

    def __str__(self) -> str:
        return render_text([Bullets(self.findings)])

    def _repr_html_(self) -> str:
        return render_part([Bullets(self.findings)])


def audit_sentences(sections: Mapping[str, object], data: str) -> list[str]:
    """What was found, most important first, in sentences made from the numbers."""
    found, score, model = [], sections.get("score"), _of(sections, Network)
    if isinstance(score, Mapping) and model:
        right = f"{100 * score['accuracy']:.1f}% of {model.inputs:,} test inputs of {data}"
        found.append(f"{right} are classified right.")
    found.append(_scaling(_of(sections, Scaling)))
    if contrast := _of(sections, Contrast):
        lowest, kept = min(contrast.accuracy), min(contrast.kept)
        s = contrast.multipliers[contrast.accuracy.index(lowest)]
        count = len(contrast.multipliers)
        found.append(
            f"At each of {count} contrasts from 1 down to {min(contrast.multipliers):g} every input has the same class."
            if kept == 1
            else f"At contrast {s:g} accuracy is {100 * lowest:.1f}%; at the worst of {count} contrasts "
            f"{100 * kept:.1f}% of the inputs have the class they have at full contrast."
        )
    if zero := _of(sections, ZeroImage):
        share = zero.entropy / zero.uniform_entropy
        found.append(
            f"At the zero image the largest probability is {max(zero.probabilities):.3f} "
            f"(entropy {share:.3f} of the uniform one's)."
        )
    found += _units(sections)
    found += _sensitivity(sections)
    if segments := _of(sections, Segments):
        proved = segments.certified
        low, high = proved.interval
        found.append(
            f"Between {proved.total} random pairs of one class, {proved.count} segments are proved to have one class "
            f"({100 * proved.count / proved.total:.1f}%, 95% interval {100 * low:.1f} to {100 * high:.1f}), "
            f"{segments.refuted} are refuted, {segments.unknown} open."
        )
    reasons = ((name, getattr(one, "why", None)) for name, one in sections.items())
    return found + [f"Not measured: {name.replace('_', ' ')}: {why}" for name, why in reasons if why]


def _of(sections: Mapping[str, object], kind: type[Found]) -> Found | None:
    """The section of that kind; ``None`` where it has no numbers."""
    return next((one for one in sections.values() if isinstance(one, kind) and not getattr(one, "why", None)), None)


def _scaling(scaling: Scaling | None) -> str:
    if scaling and scaling.degree is not None and scaling.verdict == "certified":
        how = (
            "nothing changes at all" if scaling.degree == 0 else f"the outputs scale with its power {scaling.degree:g}"
        )
        return (
            f"Proved: when the input is multiplied by a positive number, {how}; the class does not depend on contrast."
        )
    count = len(scaling.breaks) if scaling else 0
    broken = f"; {counted(count, 'module')} break{'s' * (count == 1)} it" if count else ""
    return f"That the class does not depend on contrast is {scaling.verdict if scaling else 'not known'}{broken}."


def _units(sections: Mapping[str, object]) -> list[str]:
    found = []
    dead, activity = _of(sections, DeadUnits), _of(sections, Activity)
    if dead and dead.units:
        found.append(f"{dead.dead:,} of {dead.units:,} units are active on none of the inputs.")
    if activity:
        of = [layer.verdict for layer in activity.layers]
        found.append(
            f"For inputs between {activity.low:g} and {activity.high:g}, {of.count('certified')} of {len(of)} ReLU "
            f"layers are proved to have an active unit always, {of.count('refuted')} can be silenced."
        )
    return found


def _sensitivity(sections: Mapping[str, object]) -> list[str]:
    found = []
    if one := _of(sections, BoundaryDistance):
        near = (
            f"The nearest place where a unit switches is {one.unit:.2g} away (median, 2-norm)"
            if one.unit
            else "Most inputs lie where a unit switches or a pool has two winners, as black corners make it"
        )
        found.append(f"{near}; the class would change at {one.other:.2g} if the region did not end.")
    if norms := _of(sections, Jacobian):
        found.append(f"The Jacobian of the outputs has norm {norms.spectral:.3g} on average (spectral).")
    if bent := _of(sections, Curvature):
        found.append(f"Input curvature of the loss: {bent.mean:.3g} on average, {bent.median:.3g} in the median.")
    if proved := _of(sections, Lipschitz):
        found.append(f"Proved Lipschitz constant: {proved.bound:.3g} (2-norm).")
    return found


def audit_page(audit: Audit) -> Document:
    """The audit as a document."""
    sections, drawings, about = audit.sections, [], ""
    if model := _of(sections, Network):
        kinds = ", ".join(f"{count} {name}" for name, count in model.layers.items())
        about = f"{model.parameters:,} parameters; {kinds}."
    if contrast := _of(sections, Contrast):
        drawings.append(contrast_figure(contrast))
    if zero := _of(sections, ZeroImage):
        drawings.append(zero_figure(zero, audit.classes))
    environment = tuple((name, str(value)) for name, value in audit.environment.items())
    seconds = tuple((name, f"{s:.2f}") for name, s in audit.seconds.items())
    first: list[Block] = [
        Text(about, is_soft=True),
        Bullets(audit.findings),
        Figures(drawings),
    ]
    last = (
        Section("Measured with", [Table("", ("", ""), environment, 2)]),
        Section("Time", [Table("", ("section", "seconds"), seconds, 1)]),
    )
    return Document(audit.title, first, (*_sections(sections), *last))


def _sections(sections: Mapping[str, object]) -> Iterator[Section]:
    if (scaling := _of(sections, Scaling)) and scaling.breaks:
        rows = tuple((f"{b.module} at {b.path}" if b.path else b.module, b.reason, b.repair) for b in scaling.breaks)
        head: tuple[str, ...] = ("module", "what breaks it", "what would repair it")
        yield Section(TITLES["scaling"], [Table("", head, rows, 3)])
    if activity := _of(sections, Activity):
        layers = tuple(
            (one.path, str(one.units), one.verdict, _count(one.dead_on_box), _count(one.dead_on_data))
            for one in activity.layers
        )
        head = ("ReLU", "units", "one always active", "dead on the box", "dead on the data")
        yield Section(TITLES["activity"], [Table("", head, layers, 1)])


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


def contrast_figure(contrast: Contrast) -> Figure:
    with blank("audit-contrast") as sheet:
        curves = ((contrast.accuracy, "right"), (contrast.kept, "same class as at contrast 1"))
        for number, (curve, label) in enumerate(curves):
            values = [100 * value for value in curve]
            sheet.axes.plot(contrast.multipliers, values, color=colour(number), marker="o", markersize=4, label=label)
        sheet.axes.set(xscale="log", xlabel="contrast multiplier", ylabel="test inputs (%)", ylim=(0, 102))
        plain_numbers(sheet.axes.xaxis)
        sheet.axes.invert_xaxis()
        sheet.axes.legend()
    return Figure(sheet.svg, "Contrast", "Share of inputs classified right, and of those that keep their class.")


def zero_figure(zero: ZeroImage, classes: Sequence[str]) -> Figure:
    probabilities = zero.probabilities
    with blank("audit-zero") as sheet:
        sheet.axes.bar(range(len(probabilities)), probabilities, color=colour(0))
        sheet.axes.axhline(1 / len(probabilities), color="#444444", linewidth=1, linestyle="--", label="uniform")
        if len(probabilities) == len(classes) <= 20:
            sheet.axes.set_xticks(range(len(classes)), classes, rotation=45, ha="right", fontsize=7)
        sheet.axes.set(xlabel="class", ylabel="probability")
        sheet.axes.grid(axis="x", visible=False)
        sheet.axes.legend()
    return Figure(sheet.svg, "Zero image", "Class probabilities at the input that is zero everywhere.")
