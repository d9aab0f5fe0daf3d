"""On a CUDA device: trainings of recorded steps against trainings of steps made kernel by kernel. ./run test -m gpu."""

import warnings

import pytest
import torch

from neuronal.data.augment import Augment
from neuronal.data.dataset import Split
from neuronal.models.registry import create_model
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from neuronal.train.replay import WARMUP

IMPLICIT = {"coupling": -0.5, "learn_coupling": False}
UCN = {"depth": 2, "width": 3}
NETWORKS = {
    "standard": ("resnet18", "standard", {"width": 8}, {}),
    "zero_bias": ("resnet18", "zero_bias", {"width": 8}, {}),
    "geometric": ("vgg6", "geometric", {"widths": (8, 8, 16), "norm": "input_mean"}, {}),
    "farkas": ("farkasnet50", "farkas", {"width": 16, "norm": "batch"}, {}),
    "implicit": ("ucn", "implicit_bias", UCN, {}),
    "implicit, fixed": ("ucn", "implicit_bias", UCN, IMPLICIT),
    "implicit, once": ("ucn", "implicit_bias", UCN, {**IMPLICIT, "steps": 1}),
    "implicit, learnt": ("ucn", "implicit_bias", UCN, {"per_channel": True, "learn_slope": True}),
    "implicit, layer": ("mlp1", "implicit_bias", {"width": 200}, IMPLICIT),
    "implicit, transformer": ("vit_tiny", "implicit_bias", {"depth": 1}, {}),
}


@pytest.fixture
def every_time_the_same():
    """Sums in the same order every time: two plain trainings differ by more than a fault might, else."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", NETWORKS)
def test_recorded_steps_train_alike(name, compiled, every_time_the_same):
    if compiled and name not in ("standard", "geometric"):
        pytest.skip("two compiled networks stand for all")
    random = torch.Generator().manual_seed(0)
    split = Split(
        torch.randint(256, (224, 3, 32, 32), generator=random, dtype=torch.uint8),
        torch.randint(10, (224,), generator=random),
    )
    model, family, options, neuron = NETWORKS[name]
    epochs = WARMUP + 2
    means = []
    for replay in (False, True):
        torch.manual_seed(1)
        made = create_model(model, family, num_classes=10, in_chans=3, img_size=32, **options, neuron_options=neuron)
        plan = Plan(epochs, 64, "sgd", 0.01, clip=1.0, channels_last=True, replay=replay, compile=compiled)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            trained = fit(made, split, plan, augment=Augment(crop=4, flip=True).apply)
        assert not [str(one.message) for one in said if "cannot be recorded" in str(one.message)]
        means.append([epoch.loss for epoch in trained.epochs])
    assert means[1] == pytest.approx(means[0], rel=1e-6)
    assert means[0][-1] != pytest.approx(means[0][0], rel=1e-3)
