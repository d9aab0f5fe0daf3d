"""A model and its optimiser on the devices and processes Accelerate finds, as a plan wants them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import broadcast_object_list
from torch import Tensor, distributed, nn

from neuronal.train.optim import Plan, parameter_groups

T = TypeVar("T")
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def accelerator_for(plan: Plan) -> Accelerator:
    """Accelerate as it was launched, at the precision of the plan."""
    state = AcceleratorState._shared_state
    if state and state["_mixed_precision"] != plan.precision:
        # Accelerate keeps one precision per program; two plans in one program may differ.
        AcceleratorState._reset_state()
    return Accelerator(mixed_precision=plan.precision, cpu=_is_on_cpu())


def processes() -> PartialState:
    """Which process this is, of how many a launcher such as torchrun has started, and on which device."""
    return PartialState(cpu=_is_on_cpu())


def is_first_process() -> bool:
    """Whether this is the process that writes things down, of one or of many."""
    first: bool = processes().is_main_process
    return first


def _is_on_cpu() -> bool:
    # Left to itself, Accelerate takes processes on a machine without GPUs for strangers: each would train all alone.
    asked = os.environ.get("ACCELERATE_USE_CPU", "false").lower() in ("1", "true", "yes", "y", "t", "on")
    return asked or (int(os.environ.get("WORLD_SIZE", 1)) > 1 and not torch.accelerator.is_available())


def from_first(make: Callable[[], T]) -> T:
    """What ``make`` returns in the first process, in all of them; it is called in that one alone."""
    made = [make() if is_first_process() else None]
    if processes().num_processes > 1:
        broadcast_object_list(made)
    answer: T = made[0]  # type: ignore[assignment]
    return answer


class Engine:
    """Model, optimiser and devices of one training.

    Args:
        accelerator: See :func:`accelerator_for`.
        model: Trained in place.
        plan: What optimiser, and how to compute.
        standard: Whether to start with every coupling held at 0.
    """

    def __init__(self, accelerator: Accelerator, model: nn.Module, plan: Plan, *, standard: bool) -> None:
        self.accelerator, self.model, self.plan, self.standard = accelerator, model, plan, standard
        self.device: torch.device = accelerator.device
        self.rank, self.world = accelerator.process_index, accelerator.num_processes
        self._shards_itself = _asks_for_cpu_shards(accelerator)
        if standard and (accelerator.distributed_type == "FSDP" or self._shards_itself):
            raise ValueError("standard_epochs does not go with FSDP, which owns the parameters. Use DDP.")
        model.to(self.device)
        if plan.channels_last:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._put_back = _synchronise(model, self.world, self.device)
        self.held = _hold_couplings(model) if standard else {}
        self._held_parameters = [p for name, p in model.named_parameters() if name in self.held]
        self.best: dict[str, Tensor] = {}
        if self._shards_itself:
            _shard(model, self.world)
        # Spread parameters, and gradients that are still scaled, are left to the optimisers torch has had for longer.
        self._fused = self.device.type == "cuda" and accelerator.distributed_type != "FSDP" and plan.precision != "fp16"
        optimiser = plan.optimiser(parameter_groups(model, plan, without=self.held), fused=self._fused)
        if self._shards_itself:
            self._prepared, self.optimiser = model, accelerator.prepare(optimiser)
        else:
            self._prepared, self.optimiser = accelerator.prepare(model, optimiser)
        self.network = self._compiled()

    def _compiled(self) -> Callable[[Tensor], Tensor]:
        """The network as ``torch.compile`` makes it; with ``replay`` on a GPU its steps are CUDA graphs."""
        graphs = self.plan.replay and self.device.type == "cuda"
        if not (self.plan.compile or graphs):
            return self._prepared
        # Batches have two sizes at most, that of the last one being the other: each gets kernels made for it.
        return torch.compile(self._prepared, dynamic=False, mode="reduce-overhead" if graphs else None)

    @property
    def bare(self) -> nn.Module:
        """The model without what Accelerate put around it."""
        bare: nn.Module = self.accelerator.unwrap_model(self._prepared)
        return bare

    def train(self) -> None:
        """Training mode; a probe may have left another."""
        self._prepared.train()

    def input(self, x: Tensor) -> Tensor:
        """``x`` laid out in memory as the plan wants it."""
        return x.contiguous(memory_format=torch.channels_last) if self.plan.channels_last and x.dim() == 4 else x

    # Note [Straight to torch]: around these three calls Accelerate looks for packages and signatures again and again,
    # which costs as much as a small network. Only a loss scaled for float16 needs what it does there.

    def zero_grad(self) -> None:
        # See Note [Straight to torch].
        self.optimiser.optimizer.zero_grad()
        # The optimiser does not know held couplings. Their gradients would add up, in memory that a CUDA graph writes to.
        for parameter in self._held_parameters:
            parameter.grad = None

    def backward(self, loss: Tensor) -> None:
        # See Note [Straight to torch].
        if self.accelerator.scaler is None:
            loss.backward()
        else:
            self.accelerator.backward(loss)

    def alone(self, part: int, num_parts: int) -> AbstractContextManager[Any]:
        """Inside: gradients stay in this process, unless the part is the last of its batch."""
        if part == num_parts - 1 or self.world == 1:
            return nullcontext()
        quiet: AbstractContextManager[Any] = self.accelerator.no_sync(self._prepared)
        return quiet

    def step(self, lr: float) -> None:
        """One update with the gradients there are."""
        groups = self.optimiser.param_groups
        for group in groups:
            group["lr"] = lr * group["lr_factor"]
        if self.plan.clip:
            # This optimiser's gradients only: Accelerate's own clipping knows those of before a fresh start as well.
            self.accelerator.unscale_gradients(self.optimiser)
            nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], self.plan.clip)
        # See Note [Straight to torch].
        (self.optimiser if self.accelerator.scaler is not None else self.optimiser.optimizer).step()

    def start_anew(self) -> None:
        """Ends the standard epochs: the couplings get their values, and all parameters a fresh optimiser."""
        put(self.held, self.bare.state_dict())
        self.zero_grad()
        self.standard, self.held, self._held_parameters, self.best = False, {}, [], {}
        optimiser = self.plan.optimiser(parameter_groups(self.bare, self.plan), fused=self._fused)
        self.optimiser = self.accelerator.prepare(optimiser)

    def keep_best(self) -> None:
        """Keeps a copy of the model as it is now; of a spread one each process keeps its part."""
        self.best = {name: value.detach().clone() for name, value in self.bare.state_dict().items()}

    @torch.no_grad()
    def put_best(self) -> None:
        """Gives the model back what was kept, if anything."""
        own = self.bare.state_dict()
        for name, value in self.best.items():
            own[name].copy_(value)

    def close(self) -> None:
        """Leaves the model as it came, but trained."""
        self.accelerator.unwrap_model(self._prepared, keep_fp32_wrapper=False)
        self._put_back()


def _asks_for_cpu_shards(accelerator: Accelerator) -> bool:
    """Whether FSDP was asked for where Accelerate leaves it out: among processes on CPUs."""
    asked = os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
    return asked and accelerator.distributed_type == "MULTI_CPU"


def _shard(model: nn.Module, world: int) -> None:
    """Spreads the first process's model over all of them, in place."""
    # torch.distributed.fsdp imports sympy and more, a third of what every command would wait for.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    for value in model.state_dict().values():
        distributed.broadcast(value, src=0)
    fully_shard(model, mesh=init_device_mesh("cpu", (world,)))


@torch.no_grad()
def put(values: dict[str, Tensor], into: dict[str, Tensor]) -> None:
    """Copies tensors by name, whole ones into sharded ones too."""
    for name, value in values.items():
        into[name].copy_(shaped_like(into[name], value))


def whole(value: Tensor) -> Tensor:
    """A copy in the memory of the CPU, gathered from all processes where each has a part."""
    full: Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value
    return full.detach().to("cpu", copy=True).contiguous()


def is_spread(model: nn.Module) -> bool:
    """Whether each process has only a part of the parameters."""
    return any(hasattr(value, "full_tensor") for value in model.state_dict().values())


def shaped_like(own: Tensor, value: Tensor) -> Tensor:
    """A whole tensor, spread over the processes the way ``own`` is."""
    if not hasattr(own, "device_mesh"):
        return value
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(value.to(own.device), own.device_mesh, own.placements)  # type: ignore[attr-defined]


@torch.no_grad()
def _hold_couplings(model: nn.Module) -> dict[str, Tensor]:
    """Sets all couplings to 0, where an implicit-bias unit is a standard one; what they were, by name."""
    held = {}
    for name, value in model.state_dict().items():
        if name.rpartition(".")[2] == "raw_coupling":
            held[name] = value.clone()
            value.zero_()
    return held


def _synchronise(model: nn.Module, world: int, device: torch.device) -> Callable[[], None]:
    """Lets batch norms see the batch of all processes; returns what puts the old ones back, which share all tensors."""
    norms = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, _BATCH_NORMS)
    ]
    if world == 1 or not norms:
        return lambda: None
    if device.type != "cuda":
        warnings.warn(
            "torch synchronises batch norm on GPUs only: here every process takes the statistics of its own images.",
            RuntimeWarning,
            stacklevel=4,
        )
        return lambda: None
    for parent, name, norm in norms:
        setattr(parent, name, nn.SyncBatchNorm.convert_sync_batchnorm(norm))

    def put_back() -> None:
        for parent, name, norm in norms:
            setattr(parent, name, norm.train(parent.training))

    return put_back
