"""The training plan, and what its names stand for: optimisers, and which parameters get which rate and decay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from math import isfinite

import torch
from torch import nn
from torch.optim import Optimizer

from neuronal.core.decay import ParameterGroup, no_weight_decay, undecayable
from neuronal.names import find
from neuronal.ops.objective import LOSSES
from neuronal.train.schedule import SCHEDULES, Measure, warmed_up

Groups = Iterable[nn.Parameter] | Iterable[ParameterGroup]
PRECISIONS = {"no": "float32", "bf16": "bfloat16 autocast", "fp16": "float16 autocast, with a scaled loss"}
MEASURES = {"loss": "lower is better", "accuracy": "higher is better"}


@dataclass(frozen=True)
class Plan:
    """How to train: everything but the network, the data and the seed.

    Args:
        epochs: Passes over the training data.
        batch_size: Images per step, over all processes together.
        optim: One of ``OPTIMISERS``.
        lr: Learning rate before the schedule.
        momentum: For ``sgd``; the others ignore it.
        weight_decay: L2 penalty (decoupled for ``adamw``).
        schedule: One of ``SCHEDULES``.
        warmup: Share of the steps over which the rate rises in a straight line, before the schedule.
        decay_weights_only: Spares biases, norms, offsets, angles and couplings the weight decay, which then acts on
            weights and on the scales of geometric units. Without it everything decays but the angles of geometric units,
            which would all turn towards one axis.
        scalar_lr: Factor on the rate of biases and single numbers; 0.1 for Fixup.
        standard_epochs: Of ``epochs``, the first so many train with all couplings at 0; then optimiser and schedule
            start anew.
        monitor: What is followed on the validation data: ``"loss"`` or ``"accuracy"``.
        cut_after: Epochs in a row without getting better that are borne before the rate is multiplied by ``cut``;
            0 for never.
        cut: See ``cut_after``.
        stop_after: Epochs in a row without getting better after which training ends, with the weights of the best epoch;
            0 for never.
        keep_best: Whether training ends with the weights of the epoch that was best on the validation data, also without
            ``stop_after``.
        loss: One of ``LOSSES``; left out, cross-entropy for classes and the squared error for numbers.
        mixup: Both parameters of the Beta distribution images are mixed by; 0 for no mixing.
        clip: Largest norm of the gradient; 0 for any.
        accumulate: Parts a batch is computed in, to fit into memory. The step is the same, but for batch norm.
        precision: One of ``PRECISIONS``.
        compile: Whether ``torch.compile`` is used.
        channels_last: Whether images lie in memory with the channels last.
        replay: Whether a GPU runs forward and backward as CUDA graphs (``torch.compile(mode="reduce-overhead")``), for
            networks whose kernels are so small that the host is too slow to launch them. Not with ``accumulate``. A CPU
            ignores it.
    """

    epochs: int
    batch_size: int
    optim: str
    lr: float
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: float = 0.0
    decay_weights_only: bool = False
    scalar_lr: float = 1.0
    standard_epochs: int = 0
    monitor: Measure = "loss"
    cut_after: int = 0
    cut: float = 0.1
    stop_after: int = 0
    keep_best: bool = False
    loss: str = ""
    mixup: float = 0.0
    clip: float = 0.0
    accumulate: int = 1
    precision: str = "no"
    compile: bool = False
    channels_last: bool = False
    replay: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "accumulate"):
            if not isinstance(getattr(self, name), int) or not 1 <= getattr(self, name) < 2**31:
                raise ValueError(
                    f"{name} needs to be a whole number of at least 1, and below 2^31, got {getattr(self, name)}."
                )
        for name in ("lr", "scalar_lr", "cut"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} needs to be a positive number, got {getattr(self, name)}.")
        for name in ("momentum", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} needs to be in [0, 1), got {getattr(self, name)}.")
        for name in ("weight_decay", "mixup", "clip", "cut_after", "stop_after", "standard_epochs"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} needs to be a number that is not negative, got {getattr(self, name)}.")
        if self.standard_epochs >= self.epochs:
            raise ValueError(
                f"standard_epochs needs to leave some of the {self.epochs} epochs, got {self.standard_epochs}."
            )
        if self.replay and self.accumulate > 1:
            # The gradients of one part would lie where the graph of the next part writes its own.
            raise ValueError(f"replay needs accumulate 1, got {self.accumulate}. Leave one of them out.")
        find(OPTIMISERS, self.optim, "optimiser")
        find(SCHEDULES, self.schedule, "schedule")
        find(PRECISIONS, self.precision, "precision")
        find(MEASURES, self.monitor, "measure")
        if self.loss:
            find(LOSSES, self.loss, "loss")

    @property
    def needs_validation(self) -> bool:
        return bool(self.cut_after) or self.ends_with_best

    @property
    def ends_with_best(self) -> bool:
        return bool(self.stop_after) or self.keep_best

    def optimiser(self, parameters: Groups, *, fused: bool = False) -> Optimizer:
        """The optimiser; ``fused`` updates all parameters in one kernel, where torch has one for it."""
        return OPTIMISERS[self.optim](
            list(parameters), self, **({"fused": True} if fused and self.optim in FUSED else {})
        )

    def lr_at(self, step: int, num_steps: int) -> float:
        """Learning rate of step ``step`` of ``num_steps``, counted from 0."""
        return self.lr * warmed_up(self.schedule, self.warmup, step, num_steps)


OPTIMISERS: dict[str, Callable[..., Optimizer]] = {
    "sgd": lambda p, plan, **how: torch.optim.SGD(
        p, plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay, **how
    ),
    "adam": lambda p, plan, **how: torch.optim.Adam(p, plan.lr, weight_decay=plan.weight_decay, **how),
    "adamw": lambda p, plan, **how: torch.optim.AdamW(p, plan.lr, weight_decay=plan.weight_decay, **how),
    "adadelta": lambda p, plan, **how: torch.optim.Adadelta(p, plan.lr, weight_decay=plan.weight_decay, **how),
}
"""Given parameters, plan and options of torch's own."""
FUSED = ("sgd", "adam", "adamw")


def parameter_groups(model: nn.Module, plan: Plan, *, without: Collection[str] = ()) -> list[ParameterGroup]:
    """The parameters as the plan treats them, for ``plan.optimiser``; ``lr_factor`` is each group's share of the rate.

    What weights are is said by :func:`neuronal.core.decay.no_weight_decay`: of geometric units, their scale. The angles of
    these never decay.

    Args:
        model: Whose parameters.
        plan: Its ``scalar_lr`` and ``decay_weights_only`` make groups.
        without: Names of parameters to leave out.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    spared = no_weight_decay(model) if plan.decay_weights_only else undecayable(model)
    for name, parameter in model.named_parameters():
        if name in without:
            continue
        factor = plan.scalar_lr if _is_scalar_or_bias(name, parameter) else 1.0
        decay = 0.0 if name in spared else plan.weight_decay
        groups.setdefault((factor, decay), []).append(parameter)
    return [
        {"params": parameters, "lr_factor": factor, "weight_decay": decay}
        for (factor, decay), parameters in groups.items()
    ]


def _is_scalar_or_bias(name: str, parameter: nn.Parameter) -> bool:
    return parameter.dim() == 0 or name.rpartition(".")[2] in ("bias", "offset", "offsets", "last")
