"""How a :class:`Cloud` goes through a torch function: one plain rule for each, by its name in ``RULES``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from neuronal.certify.cloud import OWN, TINY, UP, Cloud, NoRule

FAR = 1e30  # below every real value: what padding puts around a pool


def lead(scores: Cloud, label: int) -> Cloud:
    """The label's score less each score. Behind a linear layer w, that is a linear layer with w[label] - w."""
    if scores.origin is None:
        off = scores.radius + scores.radius[:, label : label + 1]
        size = scores.size_bound + scores.size_bound[:, label : label + 1]

        def gaps(row: Tensor) -> Tensor:
            return row[:, label : label + 1] - row

        def sums(row: Tensor) -> Tensor:
            return row[:, label : label + 1] + row

        result = scores.like(scores.moved(gaps), (off + 8 * OWN * size) * UP)
        return result.linear_in([scores], gaps, sums, 0.0, 0.0)
    x, w, shift = scores.origin
    gap, weight = w[label] - w, w[label].abs() + w.abs()
    both = shift[label] - shift if isinstance(shift, Tensor) else 0.0
    difference = x.affine(lambda row: row @ gap.T, lambda row: row @ gap.abs().T, both, w.shape[1] + 1)
    n = w.shape[1] + 5
    # Deployed, the two scores are rounded one by one. In real numbers there is one row, whose rounding is counted above.
    size = x.size_bound @ weight.T + (shift[label].abs() + shift.abs() if isinstance(shift, Tensor) else 0.0)
    off = (n * x.unit * 1.1) * size
    result = x.like(difference.rows, (difference.radius + off) * UP)
    return result.linear_in([difference], Tensor.clone, Tensor.clone, 0.0, off)


def _wide(value: Any) -> Any:
    if isinstance(value, Cloud):
        raise NoRule("The checker has no rule for a constant that depends on the input.")
    return value.detach().double() if isinstance(value, Tensor) else value


def copied(func: Callable[..., Tensor]) -> Callable[..., Cloud]:
    """Every number of the result is one of the argument's, or zero."""

    def rule(x: Cloud, *args: Any, **kwargs: Any) -> Cloud:
        result = x.like([func(row, *args, **kwargs) for row in x.rows], func(x.radius, *args, **kwargs))
        result.changes, result.seen = x.changes, x.seen

        def apply(row: Tensor) -> Tensor:
            return func(row, *args, **kwargs)

        result.linear_in([x], apply, apply, 0.0, 0.0)
        return result.note("positions", x)

    return rule


def averaged(func: Callable[..., Tensor], window: Callable[..., int]) -> Callable[..., Cloud]:
    """Linear with weights that are never negative; ``window`` says how many numbers an output reads at most."""

    def rule(x: Cloud, *args: Any, **kwargs: Any) -> Cloud:
        def apply(row: Tensor) -> Tensor:
            return func(row, *args, **kwargs)

        return x.affine(apply, apply, 0.0, window(x, *args, **kwargs) + 1).note("positions", x)

    return rule


def _of_sum(func: Callable[..., Tensor]) -> Callable[..., int]:
    """Every number is read once."""
    return lambda x, *args, **kwargs: x.radius.numel() // func(x.radius, *args, **kwargs).numel()


def _of_pool(rank: int) -> Callable[..., int]:
    return lambda x, kernel_size, *_, **__: math.prod(_tuple(kernel_size, rank))


def _of_adaptive_pool(rank: int) -> Callable[..., int]:
    """Position i of n of m reads from floor(i m / n) to ceil((i + 1) m / n)."""

    def window(x: Cloud, output_size: Any) -> int:
        sizes = zip(_tuple(output_size, rank), x.radius.shape[-rank:], strict=True)
        return math.prod(1 if n is None else m // n + 2 for n, m in sizes)

    return window


def _tuple(value: Any, rank: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Sequence) else (value,) * rank


def weighted(func: Callable[..., Tensor]) -> Callable[..., Cloud]:
    """Linear maps and convolutions: input, weight, bias, options."""

    def rule(input: Any, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Cloud:
        if isinstance(weight, Cloud) or isinstance(bias, Cloud) or not isinstance(input, Cloud):
            raise NoRule("The checker has no rule for weights or biases that depend on the input.")
        w = _wide(weight)
        shift = 0.0 if bias is None else _wide(bias).view(-1, *[1] * (w.dim() - 2))
        result = input.affine(
            lambda row: func(row, w, None, *args, **kwargs),
            lambda row: func(row, w.abs(), None, *args, **kwargs),
            shift,
            w[0].numel() + 1,
        )
        if func is F.linear:
            kept = input.like(input.rows, input.radius).linear_in([input], Tensor.clone, Tensor.clone, 0.0, 0.0)
            result.origin = (kept, w, shift)  # whatever becomes of the input
        names = ("stride", "padding", "dilation", "groups")
        return result.note("weights", input, w, bias, dict(zip(names, args, strict=False)) | kwargs)

    return rule


def scaled(x: Cloud, scale: Any, shift: Any = 0.0, terms: int = 2) -> Cloud:
    if isinstance(scale, int | float) and abs(scale) == 1 and isinstance(shift, int | float) and shift == 0:
        rows = x.moved(lambda row: row * scale)  # nothing is rounded
        result = x.like(rows, x.radius).linear_in([x], lambda row: row * scale, Tensor.clone, 0.0, 0.0)
    else:
        result = x.affine(lambda row: row * scale, lambda row: row * abs(scale), shift, terms)
    return result.note("scaling", x, scale, shift)


def add(x: Any, other: Any, *, alpha: float = 1) -> Cloud:
    if not isinstance(x, Cloud):
        return scaled(other, alpha, _wide(x))
    if not isinstance(other, Cloud):
        return scaled(x, 1.0, _wide(other) * alpha)
    g = 4 * OWN + 4 * x.unit
    size = x.size_bound + abs(alpha) * other.size_bound
    rows = [a + alpha * b for a, b in zip(x.rows, other.rows, strict=True)]
    rest = g * size + torch.where(size > 0, TINY, 0.0)
    result = x.like(rows, (x.radius + abs(alpha) * other.radius + rest) * UP)
    result.linear_in([x, other], lambda a, b: a + alpha * b, lambda a, b: a + abs(alpha) * b, 0.0, rest)
    return result.note("sum", x, other, alpha)


def sub(x: Any, other: Any, *, alpha: float = 1) -> Cloud:
    return add(x, other, alpha=-alpha)


def mul(x: Any, other: Any) -> Cloud:
    if not isinstance(x, Cloud):
        x, other = other, x
    if isinstance(other, Cloud):
        raise NoRule("The checker has no rule for the product of two values that depend on the input.")
    return scaled(x, _wide(other))


def div(x: Cloud, other: Any) -> Cloud:
    return mul(x, 1 / _wide(other))


def batch_norm(
    x: Cloud,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Cloud:
    if training:
        raise NoRule("The checker has no rule for batch norm with the statistics of the batch.")
    shape = (1, -1, *[1] * (x.radius.dim() - 2))
    scale = 1 / torch.sqrt(_wide(var) + eps) * (1.0 if weight is None else _wide(weight))
    centred = scaled(x, 1.0, -_wide(mean).view(shape))
    return scaled(centred, scale.view(shape), 0.0 if bias is None else _wide(bias).view(shape), terms=8)


def lines(x: Cloud, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """lam and mu such that relu(x) is within mu of lam x + mu, which has no error where x has one sign."""
    on, off = low >= 0, high <= 0
    lam = torch.where(on, 1.0, torch.where(off, 0.0, high / (high - low)))
    return lam, torch.where(on | off, 0.0, -lam * low / 2 * UP + 16 * OWN * x.size_bound)


def relu(x: Cloud, inplace: bool = False, *, is_layer: bool = False) -> Cloud:
    return _bent(x, 0.0, 0.0, is_layer=is_layer)


def kink(x: Cloud, slope: Any) -> Cloud:
    # The network rounds its slope and one product, of which nothing is lost where it is exactly 0, or the slope 0, 1 or -1.
    size = abs(torch.as_tensor(slope, dtype=x.radius.dtype))
    off = (12 * OWN * (1 + size) + 3 * x.unit * size) * x.size_bound + torch.where(x.size_bound > 0, TINY, 0.0)
    return _bent(x, slope, torch.where((size == 0) | (size == 1), 0.0, off), is_layer=False)


def _bent(x: Cloud, slope: Any, off: Any, *, is_layer: bool) -> Cloud:
    """slope x + (1 - slope) relu(x), the second between two parallel lines; or, where narrower, anywhere it can be."""
    low, high = x.range()
    lam, mu = lines(x, low, high)
    line, shift = slope + (1 - slope) * lam, (1 - slope) * mu
    radius = line.abs() * x.radius + shift.abs()
    if x.has_corners:
        ends = torch.stack(torch.broadcast_tensors(low.clamp(max=0) * slope, high.clamp(min=0), torch.zeros_like(low)))
        least, most = ends.amin(0), ends.amax(0)
        half = (most - least) / 2 * UP
        is_flat = (mu > 0) & (radius > half)
        line, shift = torch.where(is_flat, 0.0, line), torch.where(is_flat, (most + least) / 2, shift)
        radius = torch.where(is_flat, half, radius)
    result = x.like(x.moved(lambda row: line * row, shift), (radius + off) * UP)
    return result.bent_from([x], slope, low, high, high > -low, is_layer=is_layer)


def prelu(x: Cloud, weight: Tensor) -> Cloud:
    w = _wide(weight)
    return kink(x, w.view(1, -1, *[1] * (x.radius.dim() - 2)) if w.numel() > 1 else w)


def maximum(x: Cloud, other: Cloud) -> Cloud:
    """The side that always wins; elsewhere other + relu(x - other), or the interval where that is narrower."""
    gap = sub(x, other)
    rough = gap.low(), gap.high()
    lam, mu = lines(gap, *rough)
    first, second = x.low() >= other.high(), other.low() >= x.high()
    low, high = torch.maximum(x.low(), other.low()), torch.maximum(x.high(), other.high())
    size = 12 * OWN * (x.size_bound + other.size_bound)
    bent = lam * x.radius + (1 - lam) * other.radius + mu + size
    width = (high - low) / 2 + size
    # An interval forgets how the value changes with the input, and that is all a ball's rows are about.
    is_flat = (width < bent) & (mu > 0) & x.has_corners

    def pick(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        return torch.where(first, a, torch.where(second, b, torch.where(is_flat, d, c)))

    middle = x.moved(torch.zeros_like, (low + high) / 2)
    raised = x.moved(torch.zeros_like, mu)
    rows = [
        pick(a, b, lam * a + (1 - lam) * b + c, d)
        for a, b, c, d in zip(x.rows, other.rows, raised, middle, strict=True)
    ]
    result = x.like(rows, pick(x.radius, other.radius, bent * UP, width * UP))
    # The rough range is that of the rows: with lines that fit it, these keep more of what the two have in common.
    return result.bent_from([x, other], 0.0, *gap.range(), rough[1] > -rough[0], is_layer=False)


def minimum(x: Cloud, other: Cloud) -> Cloud:
    return mul(maximum(mul(x, -1.0), mul(other, -1.0)), -1.0)


def rectified(x: Cloud, inplace: bool = False) -> Cloud:
    """A ReLU of the model, and not one that another rule is made of."""
    return relu(x, is_layer=True).note("relu", x)


def clamp(x: Cloud, min: Any = None, max: Any = None) -> Cloud:
    """Two bends, one after the other; what is between both ends as it is; or, where narrower, the interval they leave.

    Lines through both bends are as wide as the input, which may be much wider than what is between the two ends.
    """
    result = x if min is None else add(relu(add(x, -min)), min)
    result = result if max is None else mul(clamp(mul(result, -1.0), min=-max), -1.0)
    if min is None or max is None or not x.has_corners:
        return result
    least, most = _wide(min), _wide(max)
    off = 4 * OWN + 2 * x.unit  # deployed, the ends are rounded
    is_same = (x.low() >= least + off * abs(least)) & (x.high() <= most - off * abs(most))
    low, high = (torch.clamp(end, least, most) for end in (x.low(), x.high()))
    middle, half = (low + high) / 2, (high - low) / 2 * UP + off * (low.abs() + high.abs())
    is_flat = half < result.radius

    def pick(same: Tensor, flat: Tensor, bent: Tensor) -> Tensor:
        return torch.where(is_same, same, torch.where(is_flat, flat, bent))

    rows = [pick(a, middle, b) for a, b in zip(x.rows, result.rows, strict=True)]
    return x.like(rows, pick(x.radius, half, result.radius))


def _largest(parts: list[Cloud]) -> Cloud:
    """In pairs, then these in pairs: with n parts, each number is in about log n of the maxima."""
    while len(parts) > 1:
        pairs = [maximum(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]


def _below_all(x: Cloud, behind: int, before: int, after: int) -> Cloud:
    """Padding along the dimension with so many ``behind`` it, each place far below every value and every other place.

    Of two equal ones neither would be known to win.
    """
    pads = [0, 0] * behind + [before, after]
    if not before and not after:
        return x

    def around(row: Tensor) -> Tensor:
        return F.pad(row, pads)

    is_pad = F.pad(torch.zeros_like(x.radius), pads, value=1.0)
    places = torch.arange(1.0, is_pad.shape[-1 - behind] + 1, dtype=is_pad.dtype, device=is_pad.device)
    shift = -FAR * is_pad * places.view(-1, *[1] * behind)
    result = x.like(x.moved(around, shift), around(x.radius))
    return result.linear_in([x], around, around, shift, 0.0)


def _pool(rank: int) -> Callable[..., Cloud]:
    def rule(
        x: Cloud,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Cloud:
        if return_indices:
            raise NoRule("The checker has no rule for max pooling with indices.")
        k, p, d = _tuple(kernel_size, rank), _tuple(padding, rank), _tuple(dilation, rank)
        if (any(p) or ceil_mode) and not (x.size_bound < FAR).all():
            raise NoRule(f"The checker has no rule for padding of values as large as {FAR:g}.")
        s = k if stride is None or stride == [] else _tuple(stride, rank)
        # What torch itself makes of the sizes says how far windows reach over the end.
        shape = F.__dict__[f"max_pool{rank}d"](x.radius, k, s, p, d, ceil_mode).shape[-rank:]
        sizes = list(shape)
        reach = [(sizes[i] - 1) * s[i] + d[i] * (k[i] - 1) + 1 - n - p[i] for i, n in enumerate(x.radius.shape[-rank:])]
        whole = x
        for i in range(rank):
            whole = _below_all(whole, rank - 1 - i, p[i], max(reach[i], 0))
            starts = [o * d[i] for o in range(k[i])]
            cuts = [slice(start, start + (sizes[i] - 1) * s[i] + 1, s[i]) for start in starts]
            whole = _largest([whole[(..., cut, *[slice(None)] * (rank - 1 - i))] for cut in cuts])
        return whole.note("positions", x)

    return rule


def amax(x: Cloud, dim: Any = (), keepdim: bool = False) -> Cloud:
    """The largest of some positions; none of the batch."""
    dims = list(dict.fromkeys(d % x.dim() for d in ((dim,) if isinstance(dim, int) else tuple(dim) or range(x.dim()))))
    if 0 in dims:
        raise NoRule("The checker has no rule for a maximum over the batch.")
    for d in dims:
        x = _largest([x.narrow(d, i, 1) for i in range(x.radius.shape[d])])
    for d in () if keepdim else sorted(dims, reverse=True):
        x = x.squeeze(d)
    return x


def _adaptive_max_pool(rank: int) -> Callable[..., Cloud]:
    """By slices: position i of n of m looks from floor(i m / n) to ceil((i + 1) m / n)."""

    def rule(x: Cloud, output_size: Any, return_indices: bool = False) -> Cloud:
        if return_indices:
            raise NoRule("The checker has no rule for max pooling with indices.")
        for i, wanted in enumerate(_tuple(output_size, rank)):
            d = x.dim() - rank + i
            m = x.radius.shape[d]
            n = m if wanted is None else wanted
            cuts = [(j * m // n, -(-(j + 1) * m // n)) for j in range(n)]
            x = cat([amax(x.narrow(d, start, end - start), d, keepdim=True) for start, end in cuts], d)
        return x

    return rule


def cat(clouds: Sequence[Cloud], dim: int = 0) -> Cloud:
    if not all(isinstance(c, Cloud) for c in clouds):
        raise NoRule("The checker has no rule for constants put beside values that depend on the input.")
    rows = [torch.cat(parts, dim) for parts in zip(*(c.rows for c in clouds), strict=True)]
    result = clouds[0].like(rows, torch.cat([c.radius for c in clouds], dim))

    def join(*parts: Tensor) -> Tensor:
        return torch.cat(parts, dim)

    return result.linear_in(clouds, join, join, 0.0, 0.0)


def pad(x: Cloud, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Cloud:
    def around(row: Tensor) -> Tensor:
        return F.pad(row, list(pad), mode)

    shift = 0.0 if not value else F.pad(torch.zeros_like(x.radius), list(pad), mode, value)
    result = x.like(x.moved(around, shift), around(x.radius))
    return result.linear_in([x], around, around, shift, 0.0)


def converted(x: Cloud, *args: Any, **kwargs: Any) -> Cloud:
    """In a precision that is not below float32; shorter ones and whole numbers round."""
    for value in (*args, *kwargs.values()):
        dtype = value.dtype if isinstance(value, Tensor) else value
        if isinstance(dtype, torch.dtype) and dtype not in (torch.float32, torch.float64):
            raise NoRule(f"The checker has no rule for {dtype}.")
    return x


def dropout(x: Cloud, p: float = 0.5, training: bool = False, inplace: bool = False) -> Cloud:
    if training:
        raise NoRule("The checker has no rule for dropout in training.")
    return x


COPIES: tuple[str, ...] = (
    "flatten",
    "view",
    "reshape",
    "permute",
    "transpose",
    "unsqueeze",
    "squeeze",
    "contiguous",
    "clone",
    "expand",
)
COPIES += ("narrow", "unflatten", "swapaxes", "movedim")
RULES: dict[str, Callable[..., Any]] = {name: copied(getattr(Tensor, name)) for name in (*COPIES, "flip")} | {
    "detach": copied(Tensor.clone)
}
RULES |= {name: weighted(getattr(F, name)) for name in ("linear", "conv1d", "conv2d", "conv3d")}
RULES |= {f"max_pool{n}d": _pool(n) for n in (1, 2, 3)}
RULES |= {f"adaptive_max_pool{n}d": _adaptive_max_pool(n) for n in (1, 2, 3)} | {"amax": amax}
RULES |= {f"avg_pool{n}d": averaged(getattr(F, f"avg_pool{n}d"), _of_pool(n)) for n in (1, 2, 3)}
RULES |= {
    f"adaptive_avg_pool{n}d": averaged(getattr(F, f"adaptive_avg_pool{n}d"), _of_adaptive_pool(n)) for n in (1, 2, 3)
}
RULES |= {name: averaged(f, _of_sum(f)) for name, f in (("mean", torch.mean), ("sum", torch.sum))}
RULES |= {"cat": cat, "pad": pad}
RULES |= {"add": add, "sub": sub, "mul": mul, "div": div, "true_divide": div, "neg": lambda x: mul(x, -1.0)}
RULES |= {"__add__": add, "__radd__": lambda x, y: add(x, y), "__sub__": sub, "__mul__": mul, "__rmul__": mul}
RULES |= {"__rsub__": lambda x, y: add(mul(x, -1.0), y), "__truediv__": div, "__neg__": lambda x: mul(x, -1.0)}
RULES |= {
    "relu": rectified,
    "prelu": prelu,
    "abs": lambda x: kink(x, -1.0),
    "batch_norm": batch_norm,
    "dropout": dropout,
}
RULES |= {"T": copied(lambda x: x.T), "mT": copied(lambda x: x.mT)}
RULES |= {"__getitem__": lambda x, index: copied(lambda row: row[index])(x)}
RULES |= {"leaky_relu": lambda x, negative_slope=0.01, inplace=False: kink(x, negative_slope)}
RULES |= {"maximum": maximum, "minimum": minimum, "clamp": clamp, "clamp_min": clamp}
RULES |= dict.fromkeys(("to", "float", "double", "type_as"), converted)
RULES |= {"relu6": lambda x, inplace=False: clamp(x, 0.0, 6.0)}
RULES |= {"hardtanh": lambda x, min_val=-1.0, max_val=1.0, inplace=False: clamp(x, min_val, max_val)}
