"""Between a running training and a checkpoint: what is taken, how it is put back, and when."""

from __future__ import annotations

import json
import warnings
import zlib
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from time import perf_counter

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor, nn

from neuronal.core.checksum import raw
from neuronal.core.records import Json
from neuronal.data.dataset import Split
from neuronal.train.checkpoint import Checkpoint, Checkpoints, OtherTraining, check_format, newest, read, write
from neuronal.train.engine import Engine, put, shaped_like, whole
from neuronal.train.optim import Plan
from neuronal.train.progress import LOOK_EVERY, Losses, Progress


class Snapshots:
    """The checkpoints of one training; does nothing without a folder.

    ``progress`` is where the training stands: at the start, or where the newest checkpoint left it.
    """

    def __init__(
        self,
        chosen: Checkpoints | Path | str | None,
        accelerator: Accelerator,
        model: nn.Module,
        train: Split,
        validation: Split | None,
        plan: Plan,
        seed: int,
    ) -> None:
        self._chosen = Checkpoints(chosen) if isinstance(chosen, Path | str) else chosen
        self._accelerator = accelerator
        self._found: Checkpoint | None = None
        self._saved_at, self._saved_step, self._warned = perf_counter(), -1, False
        self.progress = Progress()
        if self._chosen is None:
            return
        self._folder = Path(self._chosen.folder)
        self._training = _training(model, train, validation, plan, seed, accelerator.num_processes)
        self._training["recipe"] = json.loads(json.dumps(dict(self._chosen.of)))
        if accelerator.is_main_process:
            self._folder.mkdir(parents=True, exist_ok=True)
        if found := self._newest():
            path, self._found = found
            check_format(path, self._found)
            _check_same(self._found.header["training"], self._training, path)
            self.progress = Progress.from_json(self._found.header["progress"])
            self._saved_step = self.progress.step

    def _newest(self) -> tuple[Path, Checkpoint] | None:
        # The first process tidies up while it looks, so the others look afterwards.
        found = newest(self._folder) if self._accelerator.is_main_process else None
        chosen = [found[0] if found else None]
        if self._accelerator.num_processes > 1:
            broadcast_object_list(chosen)
        path = chosen[0]
        return found or (None if path is None else (path, read(path)))

    def restore(self, engine: Engine, order: torch.Generator, losses: Losses, correct: Tensor) -> None:
        """Puts back what was found, if anything; random numbers last, as making an engine may use some."""
        if self._found is None:
            return
        found, tensors = self._found, dict(self._found.tensors)
        put(_under("model.", tensors), engine.bare.state_dict())
        engine.held = {name: value.to(engine.device) for name, value in _under("held.", tensors).items()}
        own = engine.bare.state_dict()
        engine.best = {
            name: shaped_like(own[name], v.to(engine.device)) for name, v in _under("best.", tensors).items()
        }
        _restore_optimiser(engine, found)
        if engine.accelerator.scaler is not None:
            engine.accelerator.scaler.load_state_dict(found.header["scaler"])
        order.set_state(tensors["order"])
        losses.seen = tensors["losses"].tolist()
        if engine.rank == 0:
            correct.copy_(tensors["correct"])
        restore_random(_under(f"random.{engine.rank}.", tensors), engine.device)
        self._found = None

    def save_at_end(self, engine: Engine, order: Tensor, losses: Losses, correct: Tensor) -> None:
        if self._chosen is not None and self._chosen.at_end:
            self.save(engine, order, losses, correct)

    def save_when_due(self, engine: Engine, order: Tensor, losses: Losses, correct: Tensor) -> None:
        if self._chosen is not None and self._is_due(self._chosen.every):
            self.save(engine, order, losses, correct)

    def _is_due(self, every: int | timedelta) -> bool:
        if isinstance(every, int):
            return self.progress.step % every == 0
        due = [perf_counter() - self._saved_at >= every.total_seconds()]
        if self._accelerator.num_processes > 1:
            # Clocks differ, and all have to save together: the first one's counts, asked now and then.
            if self.progress.step % LOOK_EVERY:
                return False
            broadcast_object_list(due)
        return due[0]

    def save(self, engine: Engine, order: Tensor, losses: Losses, correct: Tensor) -> None:
        """Writes a checkpoint; without space for it the training goes on, with one warning.

        Args:
            engine: Model and optimiser.
            order: State, before this epoch, of the generator that orders the images.
            losses: Looked at first, so that no state after a loss that was not finite is ever kept.
            correct: Right answers in this epoch so far.
        """
        if self._chosen is None:
            return
        losses.look()
        checkpoint = self._taken(engine, order, losses, correct)
        self._saved_at = perf_counter()
        if not self._accelerator.is_main_process or not _is_finite(checkpoint):
            return
        try:
            write(self._folder, self.progress.step, checkpoint, keep=self._chosen.keep)
            self._saved_step = self.progress.step
        except OSError as refused:
            if not self._warned:
                self._warned = True
                kept = (
                    f"the last checkpoint is of step {self._saved_step}" if self._saved_step >= 0 else "there is none"
                )
                warnings.warn(
                    f"no checkpoint of step {self.progress.step} in {self._folder} ({refused}); {kept}. "
                    "Training goes on; said once.",
                    RuntimeWarning,
                    stacklevel=3,
                )

    def _taken(self, engine: Engine, order: Tensor, losses: Losses, correct: Tensor) -> Checkpoint:
        tensors = {f"model.{name}": value for name, value in engine.bare.state_dict().items()}
        tensors |= {f"held.{name}": value for name, value in engine.held.items()}
        tensors |= {f"best.{name}": value for name, value in engine.best.items()}
        tensors |= {"order": order, "losses": torch.tensor(losses.seen, dtype=torch.float64)}
        tensors["correct"] = self._accelerator.reduce(correct)
        for rank, states in enumerate(_random_states(engine)):
            tensors |= {f"random.{rank}.{name}": state for name, state in states.items()}
        numbers: dict[str, Json] = {}
        for index, state in engine.optimiser.state_dict()["state"].items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    tensors[f"optimiser.{index}.{key}"] = value
                else:
                    numbers.setdefault(str(index), {})[key] = value
        scaler = engine.accelerator.scaler
        header = {
            "training": self._training,
            "progress": self.progress.to_json(),
            "optimiser": numbers,
            "scaler": None if scaler is None else scaler.state_dict(),
        }
        return Checkpoint(header, {name: whole(value) for name, value in tensors.items()})


def _training(model: nn.Module, train: Split, validation: Split | None, plan: Plan, seed: int, processes: int) -> Json:
    """What has to be the same for a training to go on, in JSON."""
    names = {name: f"{list(value.shape)} {value.dtype}" for name, value in model.state_dict().items()}
    data = {"images": len(train), "shape": list(train.stored.shape[1:]), **_sums(train)}
    if validation:
        data |= {f"validation {name}": value for name, value in _sums(validation).items()}
    # The seed first: with another one the data held out are others too, which says less.
    whole = {"seed": {"seed": seed}, "plan": asdict(plan), "model": names, "data": data}
    same: Json = json.loads(json.dumps({**whole, "processes": {"processes": processes}}))
    return same


def _sums(split: Split) -> Json:
    scalings = {"scaling": split.scaling, "scaling of answers": split.answer_scaling}
    # Rounded: with another number of threads the last digits of a mean differ.
    told = {
        name: [f"{number:.6g}" for number in scaling.mean + scaling.std]
        for name, scaling in scalings.items()
        if scaling
    }
    return {"inputs": zlib.crc32(raw(split.stored)), "labels": zlib.crc32(raw(split.answers)), **told}


def _check_same(found: Json, own: Json, path: Path) -> None:
    for part in own:
        # Only a checkpoint of before there was such a part lacks it.
        before = found.get(part, {})
        for key in {**own[part], **before}:
            there, here = before.get(key, "nothing"), own[part].get(key, "nothing")
            if there != here:
                what = key if key == part else f"{part} has {key}"
                raise OtherTraining(
                    f"{path} is of another training: its {what} = {there}, this one's = {here}. Choose another folder."
                )


def _restore_optimiser(engine: Engine, found: Checkpoint) -> None:
    own = engine.optimiser.state_dict()
    parameters = [p for group in engine.optimiser.param_groups for p in group["params"]]
    state: dict[int, Json] = {int(index): dict(values) for index, values in found.header["optimiser"].items()}
    for name, value in _under("optimiser.", dict(found.tensors)).items():
        index, _, key = name.partition(".")
        like = parameters[int(index)].detach()
        if value.shape == like.shape and key != "step":
            # In memory as the parameter lies there.
            value = torch.empty_like(like, dtype=value.dtype).copy_(shaped_like(like, value))
        state.setdefault(int(index), {})[key] = value
    # Rates and decay are in the groups already: they come from the plan.
    engine.optimiser.load_state_dict({"state": state, "param_groups": own["param_groups"]})


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _random_states(engine: Engine) -> list[dict[str, Tensor]]:
    """State of torch's generators, process by process."""
    own = {"cpu": torch.get_rng_state()}
    if engine.device.type == "cuda":
        own["cuda"] = torch.cuda.get_rng_state(engine.device)
    states: list[dict[str, Tensor]] = gather_object([own]) if engine.world > 1 else [own]
    return states


def restore_random(states: dict[str, Tensor], device: torch.device) -> None:
    """Puts back the state of torch's generators; that of a GPU is left as it is where a CPU has trained before."""
    torch.set_rng_state(states["cpu"])
    kinds = ["a GPU" if is_gpu else "a CPU" for is_gpu in ("cuda" in states, device.type == "cuda")]
    if kinds[0] != kinds[1]:
        warnings.warn(
            f"the training was begun on {kinds[0]} and goes on on {kinds[1]}: what is drawn at random from here on is not "
            "what it would have been.",
            RuntimeWarning,
            stacklevel=4,
        )
    elif device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


def _is_finite(checkpoint: Checkpoint) -> bool:
    # The last step can spoil the weights before any loss shows it.
    weights = [value for name, value in checkpoint.tensors.items() if name.startswith("model.")]
    return all(bool(value.isfinite().all()) for value in weights)
