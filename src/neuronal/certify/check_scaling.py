"""Verifies certificates of scaling again, on the exported graph of the model and with rules of its own."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, fx, nn

from neuronal.certify.certificate import OTHER_STATEMENT, Certificate, require
from neuronal.certify.exported import Mark, leaves, walk
from neuronal.certify.statement import scaling
from neuronal.core.inference import Arguments, call_on_copy
from neuronal.core.precision import all_digits


def check_scaling(certificate: Certificate, model: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless it holds.

    Certified: the exported graphs for one row and for two have the degree. Refuted: the model, in float64, departs from
    every degree at the witness.
    """
    evidence = certificate.evidence
    shape, degree = evidence.shape, evidence.degree
    sizes = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    require(sizes and (degree is None or isinstance(degree, Fraction)), "its shape or degree is none")
    require(certificate.statement == scaling(degree, shape), OTHER_STATEMENT)
    require(certificate.promise == "real", "it is about real numbers only")
    if certificate.verdict == "refuted":
        require(degree is None, "it refutes what it gives a degree")
        _require_departure(certificate, model)
        return
    require(certificate.witness is None and evidence.scale is None, "it is certified and has a witness against it")
    require(degree is not None, "it is certified and has no degree")
    for rows in (1, 2):
        found = exported_degree(model, shape, rows)
        require(found is not None, "the exported graph has no degree, or a part nothing is known of")
        require(found == degree, f"the exported graph has another degree: {found}")


def _require_departure(certificate: Certificate, model: nn.Module) -> None:
    """f(x), f(s x), f(s s x) of a float64 copy are not what they are for any degree.

    Numbers near the ends of what floats can hold show nothing: there products vanish, or overflow, by themselves.
    """
    x, s, shape = certificate.witness, certificate.evidence.scale, certificate.evidence.shape
    require(x is not None and x.is_floating_point(), "it has no witness")
    assert x is not None
    require(x.shape == (1, *shape), "its witness has another shape")
    require(type(s) is float and 2.0**-20 <= s <= 2.0**20, "its scale is no moderate positive number")
    size = x.double().abs().max().item()
    require(1e-6 <= size <= 1e6, "its witness is not of moderate size")
    own = next((p for p in model.parameters() if p.is_floating_point()), x)
    with all_digits(own.device):
        precise = deepcopy(model).double().eval()
        inputs = [x.to(own.device).double() * factor for factor in (1.0, s, s * s)]
        a, b, c = (call_on_copy(precise, v).flatten() for v in inputs)
        # What is left of a difference of equal numbers moves by its own size when the input hardly does.
        shaken = call_on_copy(precise, inputs[0] * (1 + 2.0**-48)).flatten()
    require(all(v.isfinite().all() for v in (a, b, c)), "outputs at its witness are not finite")
    sizes = [v.abs().max().item() for v in (a, b, c)]
    require(all(n == 0 or n > 1e-200 for n in sizes), "outputs at its witness are next to zero")
    # b = k a and c = k k a for some k > 0 is what a degree would mean.
    k = (a @ b / (a @ a)).item() if sizes[0] else 0.0
    if k <= 0:
        require(any(sizes), "outputs at its witness are zero")
        return
    off = max(((b - k * a).norm() / (k * a).norm()).item(), ((c - k * k * a).norm() / (k * k * a).norm()).item())
    noise = ((shaken - a).norm() / a.norm()).item()
    require(off > max(1e-7, 100 * noise), "the model departs from a degree no further than rounding may")


@dataclass(frozen=True)
class Power(Mark):
    """A value that is multiplied by s to this power."""

    of: Fraction


class NoPower(Exception):
    """An operation without a degree, or one that is not known here."""


def exported_degree(model: nn.Module, shape: Iterable[int], rows: int = 2) -> Fraction | None:
    """The degree of the graph exported for so many rows; None if it has none or cannot be exported."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))
    x = torch.zeros(rows, *shape, dtype=parameter.dtype, device=parameter.device)
    found = walk(model, x, Power(Fraction(1)), _power)
    return None if found is None else found.of


_COPYING = (
    "view permute expand clone slice select unsqueeze squeeze flip alias as_strided index_select gather cat relu neg "
    "abs sum mean amax amin max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d avg_pool3d "
    "_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_max_pool2d adaptive_max_pool3d "
    "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad2d replication_pad3d upsample_bilinear2d "
    "upsample_nearest2d leaky_relu _to_copy topk sort cumsum repeat split_with_sizes maximum minimum add sub where "
    "constant_pad_nd clamp clamp_min clamp_max hardtanh max min scatter slice_scatter select_scatter pixel_shuffle "
    "index unbind"
)
_HOW = (
    "condition index indices mask dim dims size alpha negative_slope repeats pad kernel_size stride padding dilation start "
    "end step k output_size scales_h scales_w keepdim ceil_mode count_include_pad divisor_override correction dtype layout "
    "device pin_memory non_blocking memory_format implicit align_corners split_sizes largest sorted descending stable "
    "storage_offset scale_factors upscale_factor sparse_grad"
)
COPIES = frozenset(_COPYING.split())
# Arguments that say how and where, not what.
SETTINGS = frozenset(_HOW.split())
FIRST = {"mul": ("self", "other"), "mm": ("self", "mat2"), "bmm": ("self", "mat2"), "convolution": ("input", "weight")}
FIRST |= {"addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2")}
ADDED = {"convolution": "bias", "addmm": "self", "baddbmm": "self"}


def _power(name: str, given: Arguments, node: fx.Node) -> Any:
    powers = {v.of for v in leaves(given) if isinstance(v, Power)}
    if name in ("item", "_local_scalar_dense", "nonzero", "masked_select"):
        raise NoPower(name)
    if powers == {0} and name != "mean_field":
        return Power(Fraction(0))
    if name in FIRST:
        one, two = (_of(given[n]) for n in FIRST[name])
        total = one + two
        if name in ADDED:
            _same([given[ADDED[name]], Power(total)])
        return Power(total)
    if name == "_to_copy" and given["dtype"] is not None and not given["dtype"].is_floating_point:
        raise NoPower("rounding")
    if name in COPIES:
        if "reduce" in given:
            raise NoPower("a scatter that computes")
        for setting in ("condition", "index", "indices", "mask"):
            if any(isinstance(v, Power) and v.of != 0 for v in leaves(given.get(setting))):
                raise NoPower(name)
        values = [v for n, v in given.items() if n not in SETTINGS]
        return _same(leaves(values))
    if name in ("gt", "lt", "ge", "le", "eq", "ne"):
        _same([given["self"], given["other"]])
        return Power(Fraction(0))
    if name in ("sign", "argmax", "argmin"):
        return Power(Fraction(0))
    if name in CHANGED:
        if any(isinstance(v, Power) and v.of != 0 for n, v in given.items() if n not in LOOKED_AT):
            raise NoPower(name)
        return CHANGED[name](given)
    raise NoPower(name)


def _of(value: Any) -> Fraction:
    return value.of if isinstance(value, Power) else Fraction(0)


def _same(values: list[Any]) -> Power:
    """The one power of all values; numbers and tensors only if they are zero or infinite, unless it is 0."""
    powers = {v.of for v in values if isinstance(v, Power)}
    if len(powers) != 1:
        raise NoPower(powers)
    (power,) = powers
    for value in values:
        if power == 0 or value is None or isinstance(value, Power | bool):
            continue
        t = torch.as_tensor(value).double()
        if not (t.eq(0) | t.abs().eq(torch.inf)).all():
            raise NoPower("a constant")
    return Power(power)


def _batch_norm(given: Arguments) -> Power:
    if given.get("training"):
        raise NoPower("statistics of the batch")
    return _same([given["input"], given["running_mean"], given["bias"]])


def _without_eps(given: Arguments) -> Power:
    if given["eps"] != 0 or _of(given["bias"]) != 0:
        raise NoPower("eps")
    return Power(Fraction(0))


def _attention(given: Arguments) -> Power:
    if _of(given["query"]) + _of(given["key"]) != 0:
        raise NoPower("attention")
    return Power(_of(given["value"]))


def _uncoupled(given: Arguments) -> Power:
    coupling: Tensor = given["coupling"]
    if coupling.any():
        raise NoPower("coupling")
    return Power(_of(given["a"]))


def _raised(given: Arguments) -> Power:
    return Power(_of(given["self"]) * Fraction(given["exponent"]))


# What the rules below look at; another argument that scales is not covered by them.
LOOKED_AT = frozenset(["self", "other", "src", "input", "running_mean", "bias", "query", "key", "value", "a"])
CHANGED = {
    "copy": lambda g: g["src"] if isinstance(g["src"], Power) else _same([g["self"], g["src"]]),
    "div": lambda g: Power(_of(g["self"]) - _of(g["other"])),
    "pow": _raised,
    "sqrt": lambda g: Power(_of(g["self"]) / 2),
    "rsqrt": lambda g: Power(-_of(g["self"]) / 2),
    "reciprocal": lambda g: Power(-_of(g["self"])),
    "var": lambda g: Power(2 * _of(g["self"])),
    "var_mean": lambda g: (Power(2 * _of(g["self"])), Power(_of(g["self"]))),
    "linalg_vector_norm": lambda g: Power(Fraction(0) if g["ord"] == 0 else _of(g["self"])),
    "_native_batch_norm_legit_no_training": _batch_norm,
    "native_layer_norm": _without_eps,
    "native_group_norm": _without_eps,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "mean_field": _uncoupled,
}
