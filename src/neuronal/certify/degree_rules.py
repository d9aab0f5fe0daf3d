"""The degree of every operation's result, as a table.

Where an operation has no degree, its rule says so and goes on as if it had been repaired, so that one walk finds all of
them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from torch import Tensor

from neuronal.certify.degrees import NONE, Call, Degrees, Rule, is_neutral

RULES: dict[str, Rule] = {}


def _for(names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return register


def degree_of_result(call: Call) -> Degrees:
    """Degrees of an operation's results. Any function of values that do not scale gives one that does not."""
    degrees = call.inputs()
    if call.name not in ALWAYS and not any(degrees):
        return NONE
    found = RULES.get(call.name, _unknown)(call)
    for name in call.forgotten():
        call.breaks(f"computes {call.name} with a {name} that depends on the scale of the input", "operation")
    return found


def _unknown(call: Call) -> Fraction:
    call.breaks(f"computes {call.name}, of which no degree is known", "operation")
    return max(call.degree(name) for name in call.forgotten())


# Copies, sums, maxima: one value in, the same degree out.


@_for(
    "clone contiguous relu neg abs leaky_relu rrelu_with_noise sum mean cumsum amax amin median sort topk std "
    "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d max_pool1d max_pool2d "
    "max_pool3d max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d reflection_pad1d reflection_pad2d reflection_pad3d "
    "replication_pad1d replication_pad2d replication_pad3d upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa "
    "_upsample_bicubic2d_aa pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle flip roll repeat tril triu "
    "im2col col2im index_select gather index _unsafe_view _reshape_copy expand_copy view_copy permute_copy _fft_r2c "
    "_fft_c2c _fft_c2r real imag take diag_embed unfold_copy repeat_interleave"
)
def _keeps(call: Call) -> Fraction:
    name = next(n for n in ("self", "input") if n in call.arguments)
    if any(call.depends(v) for n, v in call.arguments.items() if n != name):
        for index in call.arguments.get("indices") or ():
            if isinstance(index, Tensor) and call.depends(index) and not index.is_floating_point():
                call.breaks("picks values by a mask that depends on the input", "control")
    return call.degree(name)


@_for("max min maximum minimum fmax fmin cat stack masked_fill constant_pad_nd")
def _joined(call: Call) -> Fraction:
    return call.join(*(name for name in ("self", "other", "value", "tensors") if name in call.arguments))


@_for("add sub rsub")
def _sum(call: Call) -> Fraction:
    other = call["other"]
    is_eps = isinstance(other, float) and 0 < abs(other) < 1e-2
    return call.join("self", "other", kind="eps" if is_eps else "constant")


@_for("where")
def _where(call: Call) -> Fraction:
    _needs_none(call, "condition")
    return call.join("self", "other")


@_for("lerp")
def _lerp(call: Call) -> Fraction:
    _needs_none(call, "weight")
    return call.join("self", "end")


@_for("_to_copy")
def _converted(call: Call) -> Fraction:
    dtype = call["dtype"]
    if call.degree() != 0 and dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
        call.breaks(f"rounds a value of degree {call.degree()} to {dtype}", "operation")
    return call.degree()


@_for("copy")
def _copied(call: Call) -> Fraction:
    before = call.degree()  # of what is overwritten; whether the rest of its memory agrees is the recorder's question
    is_neutral_source = not call.depends(call["src"]) and is_neutral(call["src"])
    return before if is_neutral_source else call.degree("src")


@_for("fill zero")
def _overwritten(call: Call) -> Fraction:
    return call.degree() if is_neutral(call.arguments.get("value", 0)) else NONE


@_for("index_put scatter index_copy slice_scatter select_scatter masked_scatter")
def _put(call: Call) -> Fraction:
    if (how := call.arguments.get("reduce")) is not None:
        call.breaks(f"computes {call.name} with reduce={how!r}", "operation")
    name = next(n for n in ("values", "src", "source", "value") if n in call.arguments)
    return call.join("self", name)


@_for("clamp clamp_min clamp_max hardtanh threshold")
def _clamped(call: Call) -> Fraction:
    bounds = [n for n in ("min", "max", "min_val", "max_val", "threshold", "value") if n in call.arguments]
    numbers = [call[n] for n in bounds if isinstance(call[n], int | float)]
    is_eps = numbers and 0 < max(map(abs, numbers)) < 1e-2
    return call.join("self", *bounds, kind="eps" if is_eps else "activation")


def _needs_none(call: Call, name: str) -> None:
    if call.degree(name) != 0:
        call.breaks(f"chooses by a value of degree {call.degree(name)} ({call.name})", "operation")


# Signs, comparisons, places of maxima: scaling changes nothing.


@_for("sign sgn isnan isinf isfinite argmax argmin argsort gt lt ge le eq ne")
def _unchanged(call: Call) -> Fraction:
    call.join(*(name for name in ("self", "other") if name in call.arguments))
    return NONE


# Products and powers: the exponents of the arguments.

POWERS: dict[str, dict[str, int | Fraction]] = {
    "mul": {"self": 1, "other": 1},
    "mm": {"self": 1, "mat2": 1},
    "bmm": {"self": 1, "mat2": 1},
    "mv": {"self": 1, "vec": 1},
    "dot": {"self": 1, "tensor": 1},
    "_trilinear": {"i1": 1, "i2": 1, "i3": 1},
    "sqrt": {"self": Fraction(1, 2)},
    "rsqrt": {"self": Fraction(-1, 2)},
    "reciprocal": {"self": -1},
    "square": {"self": 2},
    "var": {"self": 2},
}


@_for(" ".join(POWERS))
def _product(call: Call) -> Fraction:
    return sum((exponent * call.degree(name) for name, exponent in POWERS[call.name].items()), NONE)


@_for("_prelu_kernel")
def _prelu(call: Call) -> Fraction:
    _needs_none(call, "weight")
    return call.degree()


@_for("div")
def _quotient(call: Call) -> Fraction:
    degree = call.degree() - call.degree("other")
    if call.arguments.get("rounding_mode") is not None and degree != 0:
        call.breaks(f"rounds a value of degree {degree}", "operation")
    return degree


BIASED = dict.fromkeys(("baddbmm", "addbmm"), ("batch1", "batch2", "self"))
BIASED |= {
    "addmm": ("mat1", "mat2", "self"),
    "addmv": ("mat", "vec", "self"),
    "convolution": ("input", "weight", "bias"),
}


@_for(" ".join(BIASED))
def _with_bias(call: Call) -> Fraction:
    one, other, name = BIASED[call.name]
    product = call.degree(one) + call.degree(other)
    bias = call[name]
    if bias is None:
        return product
    if call.depends(bias):
        if call.degree(name) != product:
            call.breaks(f"adds values of degree {product} and {call.degree(name)}", "mixed")
    elif product != 0:
        if is_neutral(bias):
            call.notes_zero()
        else:
            call.breaks("has a bias", "bias")
    return product


@_for("pow")
def _power(call: Call) -> Fraction:
    exponent = call["exponent"]
    if isinstance(exponent, int | float):
        return call.degree() * Fraction(exponent)
    return _unknown(call)


@_for("var_mean std_mean")
def _moments(call: Call) -> tuple[Fraction | None, ...]:
    return (2 if call.name == "var_mean" else 1) * call.degree(), call.degree()


@_for("linalg_vector_norm norm")
def _norm(call: Call) -> Fraction:
    order = call.arguments.get("ord", call.arguments.get("p"))
    return NONE if order == 0 else call.degree()


# Norms, softmax, attention, coupling.


@_for("native_layer_norm native_group_norm _fused_rms_norm")
def _normalised(call: Call) -> Fraction:
    call.degree("input")
    if call["eps"] != 0:
        size = "the precision" if call["eps"] is None else f"{call['eps']:g}"
        call.breaks(f"divides by the size of its input plus eps = {size}, which does not scale", "eps")
    return NONE


@_for("native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit_no_training")
def _batch_norm(call: Call) -> Degrees:
    if call.arguments.get("training"):
        # The recorder runs two rows: one in front means that rows were put side by side, as instance norm does.
        if call["input"].shape[0] > 1:
            call.breaks("uses the statistics of the batch, not of a row", "batch")
        return _normalised(call) if call.degree("input") != 0 else NONE
    return call.join(
        "input", "running_mean", "bias", kind="batch_norm", reason="takes off a running mean and adds a bias"
    )


@_for("_softmax _log_softmax _safe_softmax")
def _softmax(call: Call) -> Fraction:
    call.breaks(f"takes the softmax of values of degree {call.degree()}", "softmax")
    return NONE


@_for(
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention"
)
def _attention(call: Call) -> Fraction:
    scores = call.degree("query") + call.degree("key")
    if scores != 0:
        call.breaks(f"weighs by the softmax of products of degree {scores}", "attention")
    return call.degree("value")


@_for("mean_field")
def _mean_field(call: Call) -> tuple[Fraction | None, ...]:
    if call["coupling"].any():
        call.breaks("couples its units through tanh(slope · difference), which does not scale", "coupling")
    else:
        call.notes_zero()
    # Residual, steps and convergence are for warnings; a solution with coupling 0 is its input.
    return call.degree("a"), None, None, None


# Never fine, whatever the degree: what the model does next is not seen.

LEAVING = "_local_scalar_dense equal nonzero masked_select _unique _unique2 unique_dim unique_consecutive bincount"


@_for(LEAVING)
def _leaves(call: Call) -> Fraction:
    call.breaks(f"decides by the input's values what to compute ({call.name})", "control")
    for name in call.forgotten():
        call.degree(name)
    return NONE


# Rules that have something to say even where nothing scales.
ALWAYS = {*LEAVING.split(), "index", "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "mean_field", "copy"}


@_for(
    "tanh sigmoid exp log gelu silu elu celu selu mish softplus log_sigmoid_forward hardswish hardsigmoid softshrink "
    "hardshrink erf sin cos expm1 log1p glu tanhshrink atan round floor ceil trunc"
)
def _does_not_scale(call: Call) -> Fraction:
    call.breaks(f"computes {call.name}, which does not scale", "activation")
    # A gate would be repaired by a norm before it, so that what it gates keeps its degree.
    return NONE if call.name in ("sigmoid", "hardsigmoid") else call.degree()
