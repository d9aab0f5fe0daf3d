"""Does scaling the input only scale the output? A proof from the operations a model performs, or what stands in its way."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from math import expm1, log, log2

import torch
from torch import Tensor, nn

from neuronal.certify.certificate import Certificate
from neuronal.certify.degree_rules import degree_of_result
from neuronal.certify.degrees import NONE, DegreeTracer
from neuronal.certify.evidence import Break, Scaling
from neuronal.certify.statement import scaling
from neuronal.core.inference import call_on_copy, check_finite, evaluating

ROWS = 2
# Powers of two, which floats scale by exactly.
SCALES = (4.0, 0.25, 2.0**10, 2.0**-10)
# Beyond so many binary digits up or down, and beyond so high a degree, floats overflow and underflow, which shows nothing.
MOST_BITS, MOST_DEGREE = 40, 8


def certify_scaling(model: nn.Module, example: Tensor | None = None) -> Certificate:
    """Is f(s x) = s^d f(x) for every input x and every s > 0, with one degree d?

    With degree 1 (or any other than 0) scaling the input scales all logits alike, so the class does not depend on
    contrast; with degree 0 nothing changes at all. The model runs once, in evaluation mode, on two rows, and every
    operation is given a degree. The proof is about real numbers, wherever f is defined; in floats it is exact for powers
    of two (short of overflow and underflow), and for other s rounding can decide a near-tie.

    Args:
        model: Any module that maps one tensor to one tensor, piecewise linear or not.
        example: An input with a batch dimension; only its shape matters for the proof. Left out, it is made from the
            model's recipe, its timm configuration, or a linear layer at its beginning.

    Returns:
        ``certified`` with the degree; ``refuted`` with a ``witness`` x and the scale at which the model itself departs
        from every degree; or ``unknown``. The evidence (:class:`Scaling`) lists what breaks it, and the repairs.
    """
    check_finite(model)
    row = _row(model, example)
    shape = tuple(row.shape[1:])
    with evaluating(model):
        tracer, found_degree = _record(model, row)
        degree = None if tracer.breaks else found_degree
        tried = _inputs(row)
        departs = None if degree is None else _departs_from(model, tried, degree)
        is_tame = all(abs(step.degree) <= MOST_DEGREE for step in tracer.steps)
        # One output says nothing about a model that draws random numbers: there is no f to refute it of.
        may_refute = (degree is None or departs) and is_tame and not tracer.is_random
        found = _counterexample(model, tried) if may_refute else None
        if found is not None and not _departs_precisely(model, *found[:2]):
            found = None  # rounding, underflow: it is not so in float64
    given = (shape, tuple(tracer.steps), tuple(tracer.breaks), tuple(tracer.zeros))
    statement = scaling(None, shape)
    if found is not None:
        x, s, deviation = found
        return Certificate(
            "scaling",
            statement,
            "refuted",
            "real",
            f"At the witness and s = {s:g} the model departs from every degree by {deviation:.1e} of its size; "
            + _why(tracer),
            witness=x,
            evidence=Scaling(None, *given, s, deviation),
        )
    if degree is None or departs:
        reason = _why(tracer) if degree is None else "the model computes something else than was seen of it"
        return Certificate("scaling", statement, "unknown", "real", reason + ".", evidence=Scaling(None, *given))
    return Certificate(
        "scaling",
        scaling(degree, shape),
        "certified",
        "real",
        f"Each of the {len(tracer.steps)} operations has a degree. In floats exact when s is a power of two.",
        evidence=Scaling(degree, *given),
    )


def degree_and_breaks(model: nn.Module, example: Tensor | None = None) -> tuple[Fraction, list[Break]]:
    """The degree, and what breaks it, as :func:`certify_scaling` sees them in one run; without breaks no proof yet."""
    with evaluating(model):
        tracer, degree = _record(model, _row(model, example))
    return degree, tracer.breaks


def _why(tracer: DegreeTracer) -> str:
    first, more = tracer.breaks[:1], len(tracer.breaks) - 1
    if not first:
        return "no operation is known to break it"
    return f"{first[0]}" + (f" (and {more} more, see evidence.breaks)" if more > 0 else "")


def _row(model: nn.Module, example: Tensor | None) -> Tensor:
    """One input, from the example or from what the model says of itself, in the model's dtype and on its device."""
    if example is None:
        shape = shape_of_input(model)
        if shape is None:
            raise ValueError(
                f"certify_scaling cannot tell the input's shape from {type(model).__name__}. Give example=, an input with "
                "a batch dimension."
            )
        example = torch.randn(1, *shape, generator=torch.Generator().manual_seed(0))
    elif example.dim() < 2 or not len(example) or not example.is_floating_point():
        raise ValueError(
            "example needs to be floats with a batch dimension in front and at least one row, "
            f"got {example.dtype} of shape {tuple(example.shape)}."
        )
    parameter = next((p for p in model.parameters() if p.is_floating_point()), example)
    return example[:1].detach().to(parameter)


def shape_of_input(model: nn.Module) -> tuple[int, ...] | None:
    """The shape of one input, from the model's recipe, its timm configuration, or a linear layer at its beginning."""
    recipe, configuration = getattr(model, "recipe", None), getattr(model, "default_cfg", None)
    if isinstance(recipe, dict) and "img_size" in recipe:
        return recipe["in_chans"], recipe["img_size"], recipe["img_size"]
    if isinstance(configuration, dict) and "input_size" in configuration:
        return tuple(configuration["input_size"])
    leaf = next((m for m in model.modules() if not next(m.children(), None)), None)
    size = getattr(leaf, "in_features", None)
    return (size,) if isinstance(size, int) and isinstance(model, nn.Sequential | type(leaf)) else None


# The model itself


def _inputs(row: Tensor) -> Tensor:
    """The example and four more inputs of its size, which are not all positive."""
    generator = torch.Generator().manual_seed(1)
    size = row.abs().max().clamp(min=1e-3)
    noise = torch.randn(4, *row.shape[1:], generator=generator, dtype=torch.float64).to(row) * size
    return torch.cat([row, noise])


def _departs_from(model: nn.Module, x: Tensor, degree: Fraction) -> bool:
    """Whether the model, run at a few scales, contradicts the degree: then something was not seen."""
    y = call_on_copy(model, x).double()
    alone = call_on_copy(model, x[:1]).double()
    if not _is_close(y[:1], alone, x.dtype):
        return True
    for s in SCALES:
        if abs(degree) * abs(log2(s)) > MOST_BITS:
            continue
        want, got = y * s ** float(degree), model(x * s).double()
        if not _is_close(want, got, x.dtype):
            return True
    return False


def _is_close(want: Tensor, got: Tensor, dtype: torch.dtype) -> bool:
    """Whether two outputs are one up to the rounding of ``dtype``."""
    size = max(want.nan_to_num().abs().max().item(), got.nan_to_num().abs().max().item(), 1e-30)
    return want.shape == got.shape and torch.allclose(
        want, got, rtol=0, atol=1e3 * torch.finfo(dtype).eps * size, equal_nan=True
    )


def _departs_precisely(model: nn.Module, x: Tensor, s: float) -> bool:
    """Whether a float64 copy of the model departs from every degree there as well."""
    precise, wide = deepcopy(model).double(), x.double()
    base, shaken, once, twice = (call_on_copy(precise, wide * factor)[0] for factor in (1.0, 1 + 2.0**-48, s, s * s))
    noise = (shaken - base).norm() / base.norm().clamp(min=1e-300)
    return departure(base, once, twice) > max(1e-6, 200 * float(noise))


def _counterexample(model: nn.Module, x: Tensor) -> tuple[Tensor, float, float] | None:
    """An input and a scale at which no degree fits, by far more than rounding explains."""
    base = call_on_copy(model, x)
    if not isinstance(base, Tensor) or not base.is_floating_point() or not torch.equal(base, call_on_copy(model, x)):
        return None
    eps = torch.finfo(base.dtype).eps
    signs = torch.randint(0, 2, x.shape, generator=torch.Generator().manual_seed(2)).to(x) * 2 - 1
    shaken = model(x * (1 + 8 * eps * signs))
    for s in SCALES:
        once, twice = model(x * s), model(x * s * s)
        for i in range(len(x)):
            deviation = departure(base[i], once[i], twice[i])
            # What is left of a difference of equal numbers moves by its own size when the input hardly does.
            noise = (shaken[i] - base[i]).double().norm() / base[i].double().norm().clamp(min=1e-300)
            if deviation > max(eps**0.4, 100 * noise.item()):
                return x[i : i + 1].clone(), s, deviation
    return None


def departure(y: Tensor, once: Tensor, twice: Tensor) -> float:
    """How far f(x), f(s x), f(s s x) are from f(x) times 1, c, c^2 for the best c > 0, relative to their sizes."""
    a, b, c = (v.flatten().double() for v in (y, once, twice))
    if not (torch.isfinite(a).all() and torch.isfinite(b).all() and torch.isfinite(c).all()):
        return 0.0
    sizes = [v.abs().max().item() for v in (a, b, c)]
    if not any(sizes):
        return 0.0
    if not all(sizes):
        return 1.0
    # Divided by their largest entries first: squares of tiny numbers would be zero.
    units = [v / n for v, n in zip((a, b, c), sizes, strict=True)]
    turned = max((units[0] / units[0].norm() - u / u.norm()).norm().item() for u in units[1:])
    grown = [log(n) + log(u.norm().item()) for u, n in zip(units, sizes, strict=True)]
    return float(max(turned, min(abs(expm1(min(grown[2] - 2 * grown[1] + grown[0], 1.0))), 1.0)))


# Recording


def _record(model: nn.Module, row: Tensor) -> tuple[DegreeTracer, Fraction]:
    """What was seen of the model, and the degree of its result."""
    x = row.repeat(ROWS, *[1] * (row.dim() - 1))
    tracer = DegreeTracer(model, x, degree_of_result)
    with tracer.watching():
        result = model(x)
    degree = tracer.degree_of(result)
    if degree is None:
        is_tensor = isinstance(result, Tensor)
        what = "a tensor that does not depend on its input" if is_tensor else f"a {type(result).__name__}"
        tracer.breaks.append(Break("", type(model).__name__, f"returns {what}", "return one tensor"))
    return tracer, degree or NONE
