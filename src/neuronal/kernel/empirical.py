r"""The tangent kernel of a network as it is: inner products of its outputs' gradients.

.. math:: K_{ij}^{op} = \sum_\theta \rho_\theta \,
    \frac{\partial f_o(x_i)}{\partial \theta} \frac{\partial f_p(x_j)}{\partial \theta}

:math:`\rho_\theta` is the rate at which a parameter learns. With all rates 1 this is the kernel of gradient descent on the
model's own parameters. With :math:`\rho = v / n` for weights of n inputs and :math:`\beta^2` for biases it is that of the
same network in the parameterisation of the tangent kernel literature, whose weights are N(0, 1) times
:math:`\sqrt{v / n}`: :func:`rates_of_width` gives those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from neuronal.core.inference import call_on_copy, check_module, evaluating

Method = Literal["jacobian", "structured"]


def rates_of_width(model: nn.Module, *, weight_variance: float = 2.0, bias_variance: float = 0.0) -> dict[str, float]:
    """Rates that make the kernel of plain layers comparable over widths: v / n for weights, beta^2 for biases.

    The first layer, whose input comes out of no ReLU, has v = 1, as in :func:`neuronal.kernel.relu_ntk`.
    """
    layers = [(path, m) for path, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)]
    rates = {}
    for number, (path, layer) in enumerate(layers):
        prefix = f"{path}." if path else ""
        rates[prefix + "weight"] = (weight_variance if number else 1.0) / layer.weight[0].numel()
        rates[prefix + "bias"] = bias_variance
    return {name: rates[name] for name, _ in model.named_parameters() if name in rates}


def empirical_ntk(
    model: nn.Module,
    x: Tensor,
    other: Tensor | None = None,
    *,
    rates: Mapping[str, float] | None = None,
    method: Method = "jacobian",
    trace: bool = False,
    memory: int = 2**30,
) -> Tensor:
    """The kernel between the rows of ``x`` and of ``other`` (``x`` itself if left out), in evaluation mode.

    Args:
        model: Any module that treats the rows of a batch alone; ``"structured"`` needs all of its parameters to be weights
            and biases of ``nn.Linear`` layers that are called once and share nothing.
        x: Inputs, on the model's device and in its precision.
        other: The same for the columns.
        rates: Rate of each parameter by name; those left out have 1 when ``rates`` is None and 0 otherwise.
        method: ``"jacobian"`` contracts whole Jacobians: O(inputs^2 outputs^2 parameters). ``"structured"`` uses that the
            gradient of a Linear layer is an outer product of its input and what comes back: inner products of widths
            instead of parameters.
        trace: The mean over outputs of the diagonal blocks, (inputs, other inputs), instead of everything.
        memory: Bytes for Jacobians; what does not fit is computed again, chunk against chunk.

    Returns:
        ``(inputs, other inputs, outputs, outputs)``, or ``(inputs, other inputs)`` with ``trace``.
    """
    check_module(model)
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    if rates is not None and (unknown := sorted(rates.keys() - dict(model.named_parameters()).keys())):
        raise ValueError(f"the model has no parameter {unknown[0]!r}; it has {', '.join(sorted(names))}.")
    chosen = {name: 1.0 if rates is None else rates.get(name, 0.0) for name in sorted(names)}
    chosen = {name: rate for name, rate in chosen.items() if rate}
    if method not in ("jacobian", "structured"):
        raise ValueError(f"method needs to be 'jacobian' or 'structured', got {method!r}.")
    find = _jacobian_kernel if method == "jacobian" else _structured_kernel
    with evaluating(model), torch.enable_grad():
        return find(model, x, other, chosen, trace, memory)


def _jacobian_kernel(
    model: nn.Module, x: Tensor, other: Tensor | None, rates: Mapping[str, float], trace: bool, memory: int
) -> Tensor:
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    moving = {name: parameters[name] for name in rates}
    fixed = {name: p for name, p in parameters.items() if name not in moving}
    fixed |= {name: b.detach() for name, b in model.named_buffers()}
    outputs = _outputs(model, x)

    def f(values: dict[str, Tensor], one: Tensor) -> Tensor:
        y: Tensor = functional_call(model, values | fixed, (one.unsqueeze(0),))
        return y.flatten()

    jacobians = vmap(jacrev(f), (None, 0))
    per_input = outputs * sum(p.numel() for p in moving.values()) * x.element_size()
    # Two chunks of Jacobians, and as much again while they are made.
    rows = max(1, memory // max(1, 4 * per_input))

    def of(inputs: Tensor) -> Tensor:
        """(inputs, outputs, parameters), the rates put in halves."""
        found: dict[str, Tensor] = jacobians(moving, inputs)
        flat = {name: found[name].reshape(len(inputs), outputs, p.numel()) for name, p in moving.items()}
        return torch.cat([flat[name] if rate == 1 else flat[name] * rate**0.5 for name, rate in rates.items()], 2)

    if not rates:
        return _zeros(x, other, outputs, trace)

    def against(a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("iok,jok->ij", a, b) / outputs if trace else torch.einsum("iok,jpk->ijop", a, b)

    return _blocks(x, other, rows, of, against)


def _blocks(
    x: Tensor, other: Tensor | None, rows: int, of: Callable[[Tensor], Any], against: Callable[[Any, Any], Tensor]
) -> Tensor:
    """Chunk against chunk; with one chunk on each side everything is computed once."""
    own = x.split(rows)
    columns = own if other is None else other.split(rows)
    kept = of(columns[0]) if len(columns) == 1 else None
    bands = []
    for number, part in enumerate(own):
        left = kept if other is None and kept is not None else of(part)
        band = []
        for place, column in enumerate(columns):
            same = other is None and place == number
            right = left if same else kept if kept is not None else of(column)
            band.append(against(left, right))
        bands.append(torch.cat(band, 1))
    return torch.cat(bands)


def _structured_kernel(
    model: nn.Module, x: Tensor, other: Tensor | None, rates: Mapping[str, float], trace: bool, memory: int
) -> Tensor:
    layers = {path: m for path, m in model.named_modules() if isinstance(m, nn.Linear)}
    _check_plain(layers, rates)
    outputs = _outputs(model, x)
    if not rates:
        return _zeros(x, other, outputs, trace)
    width = sum(m.in_features + outputs * m.out_features for m in layers.values())
    rows = max(1, memory // max(1, 4 * width * x.element_size()))

    def of(inputs: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        return _ins_and_outs(model, layers, inputs, outputs)

    def against(a: dict[str, tuple[Tensor, Tensor]], b: dict[str, tuple[Tensor, Tensor]]) -> Tensor:
        total: Tensor | float = 0.0
        # A layer the model does not call is in neither.
        for path in a:
            prefix = f"{path}." if path else ""
            (h, g), (k, q) = a[path], b[path]
            inputs = rates.get(prefix + "weight", 0.0) * (h @ k.T) + rates.get(prefix + "bias", 0.0)
            if trace:
                total = total + inputs * (g.flatten(1) @ q.flatten(1).T) / outputs
            else:
                total = total + inputs[:, :, None, None] * torch.einsum("iok,jpk->ijop", g, q)
        assert isinstance(total, Tensor)
        return total

    return _blocks(x, other, rows, of, against)


def _check_plain(layers: Mapping[str, nn.Linear], rates: Mapping[str, float]) -> None:
    """Every parameter with a rate is the weight or the bias of one layer, as it is."""
    own = {
        f"{path}.{name}" if path else name: parameter
        for path, layer in layers.items()
        for name, parameter in layer.named_parameters(recurse=False)
        if name in ("weight", "bias")
    }
    if foreign := sorted(rates.keys() - own.keys()):
        raise ValueError(
            "structured kernels are of the weights and biases of nn.Linear layers, "
            f"and {foreign[0]} is none of them. Use 'jacobian'."
        )
    known: dict[int, str] = {}
    for name, parameter in own.items():
        if (first := known.setdefault(id(parameter), name)) != name:
            raise ValueError(
                f"structured kernels need layers that share nothing, {first} is also {name}. Use 'jacobian'."
            )


def _ins_and_outs(
    model: nn.Module, layers: Mapping[str, nn.Linear], x: Tensor, outputs: int
) -> dict[str, tuple[Tensor, Tensor]]:
    """Per layer its input (inputs, n) and the gradients of the outputs by its result (inputs, outputs, m)."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    with torch.enable_grad(), _watched(layers, seen):
        # The input asks for gradients, so that results do even where parameters are frozen.
        y = _rows(call_on_copy(model, x.detach().requires_grad_()), len(x))
    wrong = [path for path, (h, z) in seen.items() if h.dim() != 2]
    if wrong:
        raise ValueError(f"structured kernels need vectors at nn.Linear layers, {wrong[0]} has more. Use 'jacobian'.")
    results = [z for _, z in seen.values()]
    found = [
        torch.autograd.grad(y[:, o].sum(), results, retain_graph=o < outputs - 1, materialize_grads=True)
        for o in range(outputs)
    ]
    return {
        path: (h, torch.stack([gradients[place] for gradients in found], 1))
        for place, (path, (h, _)) in enumerate(seen.items())
    }


@contextmanager
def _watched(layers: Mapping[str, nn.Linear], seen: dict[str, tuple[Tensor, Tensor]]) -> Iterator[None]:
    def note(path: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
        def after(_: nn.Module, inputs: tuple[Tensor, ...], result: Tensor) -> Tensor:
            if path in seen:
                raise ValueError(f"structured kernels need layers that are called once, {path} is used again.")
            seen[path] = (inputs[0].detach().clone(), result)
            # What comes next may work in place, and gradients are wanted by what the layer gave.
            return result.clone()

        return after

    handles = [layer.register_forward_hook(note(path)) for path, layer in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _rows(y: Tensor, count: int) -> Tensor:
    """(inputs, outputs), also of models that give one number without a dimension of its own."""
    return y.reshape(count, -1) if count else y.reshape(0, y.shape[1:].numel())


def _outputs(model: nn.Module, x: Tensor) -> int:
    """Numbers a model gives for one input."""
    with torch.no_grad():
        y: Tensor = call_on_copy(model, x[:1])
    return _rows(y, min(1, len(x))).shape[1]


def _zeros(x: Tensor, other: Tensor | None, outputs: int, trace: bool) -> Tensor:
    shape = (len(x), len(x if other is None else other))
    return x.new_zeros(shape if trace else (*shape, outputs, outputs))
