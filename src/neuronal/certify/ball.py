"""How far can an input move in any direction before the predicted class may change?

Values are known as ``centre + generators xi +- rest`` for every ``xi`` with norm at most the radius: one generator for
each number of the input. Rounding is counted as in Note [Bounds] of ``bounds.py``: with d = radius * (dual norm of the
generators), every value is at most |centre| + d + rest, and so is what gamma_n is multiplied by, because
``sum_j |A_ij| |xi_j| <= d_i`` bounds the error of the generators as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from neuronal.certify.backward import Backward, Places
from neuronal.certify.bounds import OWN, Bounds, gamma, plain_arithmetic
from neuronal.certify.branch import Budget
from neuronal.certify.certificate import Certificate, Promise
from neuronal.certify.evidence import BallEvidence, Norm
from neuronal.certify.question import check_promise, checked, classifier, own_dtype
from neuronal.certify.radius import largest_radius
from neuronal.certify.statement import ball
from neuronal.core.inference import call_on_copy, evaluating
from neuronal.geometry.lowering import NotPiecewiseLinear
from neuronal.geometry.program import Affine, Concat, Copy, Kink, Maximum, Program, Step, Sum, follow

SPARE = 0.999  # of the largest radius found is stated, so that a checker with other constants can prove it as well
ROUNDINGS = 2.0  # each rounding is counted so often, for the same reason
UNITS = 128  # followed back at one bend, or as many as the input has numbers
STEPS, STRIDE = 2, 0.5  # of the slopes, at the first radius whose margin is near 0
NEAR = 0.01  # of the lead at the centre


def certify_ball(
    model: nn.Module, x: Tensor, *, norm: Norm = 2, promise: Promise = "real", budget: Budget | None = None
) -> Certificate:
    r"""A ball around ``x``, one input without a batch, in which the predicted class does not change.

    Inside the linear region the largest such ball is :math:`\min(\min_j |z_j| / \|\nabla z_j\|_q,\;
    \min_c (f_y - f_c) / \|\nabla (f_y - f_c)\|_q)` with the dual norm q. Beyond it, kinks that may switch are enclosed by
    lines, by bounds carried backwards (Note [Backward] of ``backward.py``), and the largest radius at which the class is
    still proved is looked for.

    Args:
        model: Any network ``geometry.lower`` understands. It is run in evaluation mode and not changed.
        x: The input.
        norm: 2 or "inf".
        promise: Which network is meant; see ``PROMISES``. For ``float32``: every float32 input in the ball.
        budget: ``memory`` bounds the bytes of the generators.

    Returns:
        ``certified`` with the radius in the evidence, or ``unknown``. Nothing is ever refuted: there is no claim about
        inputs outside the ball.
    """
    x = checked("x", x)
    check_promise(promise)
    if norm not in (2, "inf"):
        raise ValueError(f'norm needs to be 2 or "inf", got {norm!r}.')
    statement = f"The predicted class does not change in a ball around the input (norm {norm})."

    def unknown(reason: str) -> Certificate:
        return Certificate("ball", statement, "unknown", promise, reason)

    try:
        program = classifier(model, x.unsqueeze(0))
    except NotPiecewiseLinear as error:
        return unknown(str(error))
    widths = [torch.Size(program.shape).numel(), *(torch.Size(step.shape).numel() for step in program.steps)]
    needed = 8 * 4 * widths[0] * max(widths)
    memory = (budget or Budget(memory=2**32)).memory
    if needed > memory:
        return unknown(f"Generators need about {needed:,} bytes and {memory:,} are allowed.")
    x = x.to(program.device)
    with evaluating(model):
        label = int(call_on_copy(model, x.unsqueeze(0).to(own_dtype(model)))[0].argmax())
    with plain_arithmetic(program.device):
        evidence = _Ball(program, x, label, norm, promise).largest()
    if not evidence.radius > 0:
        return unknown("No radius could be proved: the input is at a kink, or two classes are as good as tied.")
    statement = ball(label, evidence.radius, norm)
    reason = f"Proved by linear bounds; {evidence.region:.6g} of it inside the linear region."
    return Certificate("ball", statement, "certified", promise, reason, None, evidence)


@dataclass(frozen=True)
class _Form:
    """``rows[0]`` + ``rows[1:]`` xi +- ``rest``; ``reach`` bounds the middle term."""

    rows: Tensor
    rest: Tensor
    reach: Tensor

    @property
    def size(self) -> Tensor:
        return self.rows[:1].abs() + self.reach

    @property
    def low(self) -> Tensor:
        return self.rows[:1] - (self.reach + self.rest) * (1 + 8 * OWN) - 8 * OWN * self.rows[:1].abs()

    @property
    def high(self) -> Tensor:
        return self.rows[:1] + (self.reach + self.rest) * (1 + 8 * OWN) + 8 * OWN * self.rows[:1].abs()


class _Ball:
    """All radii around one input."""

    def __init__(self, program: Program, x: Tensor, label: int, norm: Norm, promise: Promise):
        self.bounds = Bounds(program, dtype=torch.float64, promise=promise, spare=ROUNDINGS)
        self.x, self.label, self.norm = x.double(), label, norm
        self.region = torch.inf
        self.bent, self.lead = False, 0.0
        self.gain, self.usual_gain = 0.0, 0.0  # in margin by slopes: now, and when there was one last
        self.places: dict[int, Places] = {}
        self.slopes: dict[int, Tensor] = {}  # those to start from, of the last margin and of the largest radius
        self.used: dict[int, Tensor] = {}
        self.proved: dict[int, Tensor] = {}

    def largest(self) -> BallEvidence:
        margin = self._margin(0.0, watch=True)  # also the distances to kinks
        region = self._shrunk(min(self.region, margin))
        radius = largest_radius(self._provable, region, margin, self.lead)
        radius = max(region, SPARE * radius)
        slopes = tuple(slope[0] for slope in self.proved.values())
        return BallEvidence(self.x, self.label, self.norm, radius, region, slopes, self.region, margin)

    def _provable(self, radius: float) -> tuple[float, float]:
        """The margin, and how much of it comes from chosen slopes; radii that are proved come in rising order."""
        margin = self._margin(radius)
        self.proved = self.used if margin > 0 else self.proved
        return margin, self.gain

    def _shrunk(self, radius: float) -> float:
        """The largest of some radii just below the given one that is proved, with no kink inside; 0 if none is."""
        for less in (1 - SPARE, 0.03, 0.2, 0.5):
            smaller = radius * (1 - less)
            if 0 < smaller < torch.inf and self._margin(smaller) > 0 and not self.bent:
                return smaller
        return 0.0

    def _margin(self, radius: float, *, watch: bool = False) -> float:
        """A lower bound of the margin in the ball, with the slopes ``used``.

        If ``watch``, the radius at which the margin of the affine map is 0.
        """
        if not self.bounds.fits(self.x.abs().max().item() + radius):
            return -torch.inf
        self.bent, self.radius, self.watch, self.used, self.gain = False, radius, watch, {}, 0.0
        size = self.x.numel()
        rows = torch.cat([self.x.view(1, -1), torch.eye(size, dtype=torch.float64, device=self.x.device)])
        rows = rows.view(-1, *self.x.shape)
        self.back = Backward(self.bounds, self.x, radius, is_box=self.norm == "inf", places=self.places)

        def apply(step: Step, forms: list[_Form]) -> _Form:
            form = self._apply(step, forms)
            self.back.tell(step, (form.size + form.rest) * (1 + 1e-9))
            return form

        live = follow(self.bounds.steps[: self.bounds.end], {0: self._form(rows, torch.zeros_like(rows[:1]))}, apply)
        last = live[self.bounds.steps[-1].inputs[0] if self.bounds.head is not None else self.bounds.program.output]
        lead = self._lead(last)
        if watch:
            self.lead = float(lead.rows[0].min())
            return float((lead.rows[0] / self._dual(lead.rows).clamp(min=1e-300)).clamp(min=0).min())
        low = lead.low[0]
        if self.bent:
            low = torch.maximum(low, self._lead_backward(last))
        return float(low.min())

    def _in_leads(self, sizes: Tensor) -> Tensor:
        """Sizes of what the leads are differences of, from those of the last value."""
        y, head = self.label, self.bounds.head
        others = [c for c in range(len(sizes) if head is None else len(head.weight)) if c != y]
        if head is None:
            return sizes[y] + sizes[others]
        return (head.weight[y].abs() + head.weight[others].abs()) @ sizes

    def _dual(self, rows: Tensor) -> Tensor:
        generators = rows[1:]
        size = generators.abs() if self.norm == "inf" else generators.square()
        total = size.sum(0, keepdim=True)
        if self.norm == 2:  # squares below the smallest normal number are lost, but of zeros nothing is
            total = total.sqrt() + generators.any(0, keepdim=True).to(total) * (2.0**-510 * len(rows) ** 0.5)
        return total * (1 + gamma(len(rows) + 8, OWN))

    def _form(self, rows: Tensor, rest: Tensor) -> _Form:
        return _Form(rows, rest, self.radius * (1 + 4 * OWN) * self._dual(rows))

    def _apply(self, step: Step, forms: list[_Form]) -> _Form:
        op, form = step.op, forms[0]
        if isinstance(op, Copy):
            return _Form(op.linear(form.rows), op.linear(form.rest), op.linear(form.reach))
        if isinstance(op, Affine):
            return self._affine(op, form, step.output)
        if isinstance(op, Kink):
            return self._kink(form, op, step)
        if isinstance(op, Maximum):
            return self._maximum(form, forms[1], step)
        if isinstance(op, Concat):
            parts = [[getattr(f, name) for f in forms] for name in ("rows", "rest", "reach")]
            return _Form(*(torch.cat(part, op.dim) for part in parts))
        assert isinstance(op, Sum)
        return self._sum(form, forms[1], op)

    def _affine(self, op: Affine, form: _Form, output: int) -> _Form:
        rows = op.linear(form.rows)
        bias = op.bias()
        if bias is not None:
            rows = torch.cat([rows[:1] + bias, rows[1:]])
        if not op.terms:
            return self._form(rows, op.absolute(form.rest))
        rule = self.bounds.rounding[output]
        rest = op.absolute(2 * rule.keep * form.rest + rule.share * form.size) + rule.floor
        return self._form(rows, rest)

    def _sum(self, one: _Form, other: _Form, op: Sum) -> _Form:
        g = 2 * (gamma(8, OWN) + gamma(8, self.bounds.v))
        f = abs(op.factor)
        off = g * (one.size + one.rest + f * (other.size + other.rest)) + 4 * self.bounds.tiny
        return self._form(one.rows + op.factor * other.rows, one.rest + f * other.rest + off)

    def _kink(self, form: _Form, op: Kink, step: Step) -> _Form:
        """slope x + (1 - slope) relu(x), the second enclosed by lam x + mu +- mu."""
        lam, mu = self._lines(form, step)
        s = op.slope.double()
        lines = s + (1 - s) * lam
        mu = (1 - s).abs() * mu
        off = (form.size + form.rest) * (16 * OWN * (2 + s.abs()))
        if op.is_exact:
            off = torch.where((lam == 0) | (lam == 1), 0.0, off)  # one branch of it, unchanged
        else:
            off = off + (form.size + form.rest) * s.abs() * 2 * gamma(6, self.bounds.v)
        rows = lines * form.rows
        rows[:1] += torch.where(s <= 1, mu, -mu)
        return self._form(rows, lines.abs() * form.rest + mu + off)

    def _lines(self, form: _Form, step: Step) -> tuple[Tensor, Tensor]:
        low, high = form.low, form.high
        if self.watch:
            slope = self._dual(form.rows)
            # Where no generator is left the value is constant in the whole region.
            distance = torch.where(form.rows[1:].any(0), form.rows[:1].abs() / slope.clamp(min=1e-300), torch.inf)
            self.region = min(self.region, distance.min().item())
            return (form.rows[:1] > 0).double(), torch.zeros_like(low)
        if self.bent and isinstance(step.op, Kink):
            low, high = self._tightened(step, low, high)
        if isinstance(step.op, Maximum) and step.op.sure is not None:  # which side wins does not hang on the input
            sure = step.op.sure.to(low.device)
            low = torch.where(sure > 0, low.clamp(min=0), low)
            high = torch.where(sure < 0, high.clamp(max=0), high)
        self.back.ranges[step.output] = low, high
        on, off = low >= 0, high <= 0
        self.bent |= not bool((on | off).all())
        lam = torch.where(on, 1.0, torch.where(off, 0.0, high / (high - low)))
        return lam, torch.where(on | off, 0.0, -lam * low / 2)

    def _tightened(self, step: Step, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The range of a kink's input, by bounds carried backwards for the units that gain most."""
        gap = torch.where((low < 0) & (high > 0), -low * high / (high - low), 0.0).flatten()
        rows = gap.topk(min(int((gap > 0).sum()), max(UNITS, self.x.numel()))).indices
        if not len(rows):
            return low, high
        one = torch.zeros(len(rows), len(gap), dtype=low.dtype, device=low.device)
        one[torch.arange(len(rows)), rows] = 1.0
        both = torch.cat([one, -one]).view(-1, *step.shape)
        below, above = self.back.lower(step.inputs[0], both).chunk(2)
        low, high = low.clone(), high.clone()
        low.view(-1)[rows] = torch.maximum(low.view(-1)[rows], below)
        high.view(-1)[rows] = torch.minimum(high.view(-1)[rows], -above)
        return low, high

    def _lead_backward(self, form: _Form) -> Tensor:
        y, head = self.label, self.bounds.head
        eye = torch.eye(self.bounds.steps[-1].shape[0], dtype=torch.float64, device=self.x.device)
        others = [c for c in range(len(eye)) if c != y]
        if head is None:
            return self._lowest(self.bounds.program.output, eye[y] - eye[others], eye.new_zeros(()))
        rule = self.bounds.rounding[self.bounds.steps[-1].output]
        gap = head.weight[y] - head.weight[others]
        shift = gap.new_zeros(()) if head.shift is None else head.shift[y] - head.shift[others]
        low = self._lowest(self.bounds.steps[-1].inputs[0], gap, shift)
        off = 2 * rule.share * self._in_leads((form.size + form.rest)[0]) + 4 * rule.floor.max()
        return low - off - 8 * OWN * low.abs()

    def _lowest(self, value: int, rows: Tensor, shift: Tensor) -> Tensor:
        """Lower bounds of the leads, with slopes below ReLUs chosen once the least of them is near 0."""
        best = self.back.lower(value, rows) + shift
        worst = best.argmin()
        layers = [step for step in self.back.steps if isinstance(step.op, Kink) and step.op.is_layer]
        if not layers or not -NEAR * self.lead - 2 * self.usual_gain < best[worst] < NEAR * self.lead:
            return best
        if not self.slopes:
            self._choose(value, rows[worst : worst + 1], layers)
        low = self.back.lower(value, rows, self.slopes) + shift
        if low.min() > best.min():
            self.gain = self.usual_gain = float(low.min() - best.min())
            best, self.used = low, dict(self.slopes)
        return best

    def _choose(self, value: int, row: Tensor, layers: list[Step]) -> None:
        """Some steps of gradient ascent for the slopes below ReLUs."""
        for step in layers:
            low, high = self.back.ranges[step.output]
            self.slopes[step.output] = (high > -low).double()
        for count in range(STEPS):
            with torch.enable_grad():
                slopes = [self.slopes[step.output].requires_grad_() for step in layers]
                gradient = torch.autograd.grad(
                    self.back.lower(value, row, self.slopes).sum(), slopes, allow_unused=True
                )
            for step, slope, change in zip(layers, slopes, gradient, strict=True):
                stride = 0.0 if change is None else change.sign() * (STRIDE / (1 + count))
                self.slopes[step.output] = (slope.detach() + stride).clamp(0, 1)

    def _maximum(self, one: _Form, other: _Form, step: Step) -> _Form:
        """The side that always wins, elsewhere other + relu(one - other)."""
        tiny = 8 * OWN * (one.size + other.size)
        gap = self._form(one.rows - other.rows, one.rest + other.rest + tiny)
        lam, mu = self._lines(gap, step)
        rows = torch.lerp(other.rows, one.rows, lam)
        rows[:1] += mu
        rest = torch.lerp(other.rest, one.rest, lam) + mu
        return self._form(rows, rest + torch.where((lam == 1) | (lam == 0), 0.0, 2 * tiny + 8 * OWN * rest))

    def _lead(self, form: _Form) -> _Form:
        """How far the class leads each of the others."""
        y, head = self.label, self.bounds.head
        if head is None:
            off = 8 * OWN * (form.size + form.size[:, y : y + 1])
            lead = _Form(form.rows[:, y : y + 1] - form.rows, form.rest + form.rest[:, y : y + 1] + off, form.reach)
        else:
            rule = self.bounds.rounding[self.bounds.steps[-1].output]
            weight, shift = head.weight, head.shift
            gap, size = weight[y] - weight, weight[y].abs() + weight.abs()
            rows = form.rows @ gap.T
            floor = 4 * rule.floor.max()
            if shift is not None:
                rows[:1] += shift[y] - shift
            rest = (2 * rule.keep * form.rest) @ gap.abs().T + 2 * rule.share * (form.size + form.rest) @ size.T + floor
            lead = replace(form, rows=rows, rest=rest)
        others = [c for c in range(lead.rows.shape[1]) if c != y]
        return self._form(lead.rows[:, others], lead.rest[:, others])
