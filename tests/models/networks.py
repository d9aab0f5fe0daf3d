"""Every model in a size that runs in milliseconds, and which neurons and norms go together."""

import torch

from neuronal.models.norm import NORMS
from neuronal.models.registry import _models, create_model
from neuronal.nn.families import FAMILIES

MODELS = sorted(name for name, make in _models().items() if make.__module__.startswith("neuronal."))
"""Those of the library; papers register others."""
PLAIN = ["fcn", "mlp1", "cnn", "vgg6", "ucn"]
RESNETS = ["resnet9", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]
FARKASNETS = ["farkasnet18", "farkasnet34", "farkasnet50", "farkasnet101", "farkasnet152"]

SMALL = {
    "fcn": {"widths": (8, 6)},
    "mlp1": {"width": 8},
    "cnn": {"widths": (4, 4, 6)},
    "vgg6": {"widths": (4, 4, 4)},
    "ucn": {},
    **{name: {"width": 4} for name in RESNETS},
    **{name: {"width": 8} for name in FARKASNETS},
    "vit_tiny": {"width": 12, "depth": 2},
}

# For each neuron the norms it goes with; "fixup" is for networks with residual branches only.
GOES_WITH = {
    "standard": {"batch", "none", "fixup", "nf", "input_mean", "weight", "weight_alone", "weight_input_mean"},
    "zero_bias": {"none", "fixup", "nf"},
    "geometric": {"batch", "none", "fixup", "input_mean"},
    "farkas": {"none", "fixup", "input_mean"},
    "implicit_bias": {"batch", "none", "fixup", "input_mean"},
}

ALLOWED = (
    {(model, neuron, norm) for model in RESNETS for neuron in FAMILIES for norm in GOES_WITH[neuron]}
    | {(model, neuron, norm) for model in PLAIN for neuron in FAMILIES for norm in GOES_WITH[neuron] - {"fixup"}}
    # Here batch norm stands after the ReLU and leaves the Farkas promise alone.
    | {("ucn", "farkas", "batch")}
    | {(model, neuron, norm) for model in FARKASNETS for neuron in ("farkas", "standard") for norm in ("none", "batch")}
    | {("vit_tiny", neuron, "layer") for neuron in FAMILIES if neuron != "zero_bias"}
)
EVERY = {(model, neuron, norm) for model in MODELS for neuron in FAMILIES for norm in (*NORMS, "layer")}
REFUSED = EVERY - ALLOWED
PAIRS = sorted({(model, neuron) for model, neuron, _ in ALLOWED})
# Of each architecture one; the deeper ones are more of the same.
DEEPER = ("34", "101", "152")
KINDS = [pair for pair in PAIRS if not pair[0].endswith(DEEPER)]
SCALING = sorted((model, norm) for model, neuron, norm in ALLOWED if neuron == "zero_bias")


def _pairwise():
    """So few of the allowed that every model, neuron and norm meets every other it goes with; of deeper models two."""
    cases, met = [], set()
    for model, neuron, norm in sorted(ALLOWED):
        pairs = {("mn", model, neuron), ("mo", model, norm), ("no", neuron, norm)}
        if not model.endswith(DEEPER) and not pairs <= met:
            cases.append((model, neuron, norm))
            met |= pairs
    deeper = sorted(model for model in MODELS if model.endswith(DEEPER))
    return cases + [pick(case for case in ALLOWED if case[0] == model) for model in deeper for pick in (min, max)]


PAIRWISE = _pairwise()


def small(model, neuron="standard", *, num_classes=3, in_chans=2, img_size=8, **options):
    shape = {"num_classes": num_classes, "in_chans": in_chans, "img_size": img_size}
    return create_model(model, neuron, **shape, **SMALL[model], **options)


def count(name, neuron="standard", **options):
    """Parameters of a network, which is not filled."""
    with torch.device("meta"):
        return sum(p.numel() for p in create_model(name, neuron, **options).parameters())
