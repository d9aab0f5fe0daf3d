"""A training step as a whole: where the compiler has to break it, and whether a CUDA graph can be made of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.bench.gpu.ahead import Job
from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.row import Row
from neuronal.models.registry import create_model
from neuronal.train.recording import NotCapturable, captured, one_line

# The one that waits for the device, if any, last: a recording that failed can leave torch in a bad way.
NEURONS = ("standard", "zero_bias", "geometric", "farkas", "implicit_bias")
WIDTH, SIDE, BATCH = 8, 32, 16


def ahead() -> list[Job]:
    """A job per neuron: nothing is timed here, and a recording that fails cannot harm what is."""
    # One of them has kernels that take the compiler longer than all else here.
    return [Job(f"graph of {neuron}", made, (neuron, "cuda"), neuron == "implicit_bias") for neuron in NEURONS]


def rows(setting: Setting) -> Iterator[Row]:
    """A line per neuron: graph breaks of forward and backward, 0 being the limit, and what can be recorded."""
    for neuron in NEURONS:
        yield setting.ready.get(f"graph of {neuron}") or made(neuron, setting.device.type)


def made(neuron: str, device: str) -> Row:
    """The line of a neuron."""
    x = torch.randn(BATCH, 3, SIDE, SIDE, device=device)
    y = torch.randint(10, (BATCH,), device=device)
    model = create_model("resnet18", neuron, num_classes=10, in_chans=3, img_size=SIDE, width=WIDTH)
    return one(neuron, model.to(device), x, y)


def one(neuron: str, model: nn.Module, x: Tensor, y: Tensor) -> Row:
    """The line of one network."""
    # Before it is compiled: of functions with a gradient of their own the compiler keeps what it traced, and with that the
    # parameters' gradients on the stream it was traced on, from which no recording is possible (torch 2.11, 2.13).
    recorded = recording_trouble(model, x, y)
    breaks, reasons = graph_breaks(model, x)
    broken = backward_trouble(model, x, y) if not breaks else ""
    notes = [*reasons, *([f"backward: {broken}"] if broken else [])]
    if recorded:
        notes.append(f"no CUDA graph: {recorded}")
    shown = {
        "backward": "broken" if broken else "not tried" if breaks else "whole",
        "CUDA graph": "no" if recorded else "yes",
    }
    # What cannot be compiled or recorded counts as one break more: the step is not one graph.
    return Row(
        neuron,
        float(breaks + bool(broken) + bool(recorded)),
        "obstacles",
        0.0,
        note="; ".join(notes),
        shown={"graph breaks": breaks, **shown},
        data={"reasons": reasons, "backward_reason": broken, "recording_reason": recorded},
    )


def graph_breaks(model: nn.Module, x: Tensor) -> tuple[int, list[str]]:
    """How often the compiler leaves off in a forward pass in bfloat16, and why, each reason in one line."""
    torch.compiler.reset()
    try:
        with warnings.catch_warnings():
            # Of the compiler about itself.
            warnings.simplefilter("ignore")
            found: Any = torch._dynamo.explain(_in_bfloat16(model, x))(x)
    except Exception as error:  # what it cannot even look at is in pieces too
        return 1, [one_line(error)]
    return found.graph_break_count, [_shortened(reason.reason) for reason in found.break_reasons]


def backward_trouble(model: nn.Module, x: Tensor, y: Tensor) -> str:
    """Why forward and backward cannot be traced as one graph each; empty if they can."""
    torch.compiler.reset()
    try:
        # Traced in full, kernels not made: what breaks a graph does so before.
        whole = torch.compile(_in_bfloat16(model, x), fullgraph=True, backend="aot_eager")
        F.cross_entropy(whole(x), y).backward()
    except Exception as error:  # whatever the compiler raises is the answer
        return _shortened(f"{type(error).__name__}: {error}")
    finally:
        model.zero_grad()
        torch.compiler.reset()
    return ""


def recording_trouble(model: nn.Module, x: Tensor, y: Tensor) -> str:
    """Why no CUDA graph can be made of a step of SGD; empty if one can (on a CPU: if the step runs)."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)
    network = _in_bfloat16(model, x)

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(network(x), y).backward()
        optimiser.step()

    try:
        captured(step, x.device)()
    except NotCapturable as refused:
        return str(refused)
    return ""


def _in_bfloat16(model: nn.Module, x: Tensor) -> Callable[[Tensor], Tensor]:
    def forward(images: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            outputs: Tensor = model(images)
        return outputs.float()

    return forward


def _shortened(text: str) -> str:
    return " ".join(text.split())[:300]
