"""What each of two processes does in test_two_processes.py: python -m tests.nn.two FOLDER."""

from __future__ import annotations

import os
import sys

import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from neuronal import nn as ours
from neuronal.models.registry import create_model
from neuronal.nn.families import FAMILIES


def averaged(neuron):
    """Gradients of two halves of a batch, averaged, are those of the whole batch."""
    torch.manual_seed(0)
    net, alone = (create_model("cnn", neuron, in_chans=1, img_size=8, widths=(4, 4, 8)).double() for _ in range(2))
    alone.load_state_dict(net.state_dict())
    x, y = torch.rand(8, 1, 8, 8, dtype=torch.float64), torch.randint(10, (8,))
    rows, both = slice(distributed.get_rank(), None, 2), DistributedDataParallel(net)
    nn.functional.cross_entropy(both(x[rows]), y[rows]).backward()
    nn.functional.cross_entropy(alone(x), y).backward()
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def sharded(cls, folder):
    """A layer is made without memory, sharded, filled, loaded, differentiated, saved, and read as a whole one."""
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(distributed.get_rank()))
    alone, whole = cls(5, 4), cls(5, 4)
    for parameter in alone.parameters():
        distributed.broadcast(parameter.data, 0)
    with torch.device("meta"):
        model = nn.Sequential(cls(5, 4))
    fully_shard(model[0])
    fully_shard(model)
    model.to_empty(device="cpu")
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    assert all(p.full_tensor().isfinite().all() for p in model.parameters())
    assert len(model(x).unique()) > 4
    shared = {
        name: nn.Parameter(distribute_tensor(value, p.device_mesh, p.placements))
        for (name, value), p in zip(alone.state_dict().items(), model.parameters(), strict=True)
    }
    model[0].load_state_dict(shared)
    nn.functional.mse_loss(model(x), torch.ones(6, 4)).backward()
    nn.functional.mse_loss(alone(x), torch.ones(6, 4)).backward()
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        distributed.all_reduce(q.grad)
        torch.testing.assert_close(p.grad.full_tensor(), q.grad / distributed.get_world_size())
    place = f"{folder}/{cls.__name__}"
    checkpoint.save(get_model_state_dict(model[0]), checkpoint_id=place)
    state = whole.state_dict()
    checkpoint.load(state, checkpoint_id=place)
    whole.load_state_dict(state)
    torch.testing.assert_close(whole(x), alone(x))


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    for neuron in FAMILIES:
        averaged(neuron)
        print(neuron, "agrees", flush=True)
    for cls in (ours.FarkasLinear, ours.GeometricLinear):
        sharded(cls, sys.argv[1])
        print(cls.__name__, "agrees", flush=True)
    distributed.destroy_process_group()
    # Threads of torch's gloo sometimes abort a process that ends as usual ("terminate called without an active exception").
    os._exit(0)
