"""What tests/nn/test_farkas_block_fused.py asks of interpreted kernels, asked of the compiled ones; and larger sizes."""

import copy

import pytest
import torch

from neuronal.geometry.precision import all_digits
from neuronal.models.registry import create_model
from neuronal.ops.farkas import relu_of_closed_sum
from tests.nn.test_farkas_block_fused import (  # noqa: F401
    fused,
    test_a_default_device_watches_nothing,
    test_checkpoints_compute_the_same_again,
    test_empty_batches_and_widths_beyond_the_kernel,
    test_every_relu_is_seen,
    test_gradients_can_be_differentiated_again,
    test_outputs_and_gradients_are_those_of_the_modules,
    test_segments_have_the_same_pieces,
    test_transforms_and_compilers_see_plain_steps,
    test_under_autocast_sums_have_the_precision_of_skip_and_branch,
    test_what_is_watched_or_changed_is_called_module_by_module,
    test_what_the_kernel_does_not_know_is_computed_in_steps,
)
from tests.ops.kernels.cases import farkas_sum

WIDE = [
    (33, 260, 32, 32),
    (9, 520, 7, 7),
    (5, 1040, 8, 8),
    (5, 2080, 4, 4),
    (3, 2048, 7, 7),
    (2, 4096, 3, 3),
    (7, 64, 56, 56),
]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", WIDE, ids=str)
def test_sums_of_the_widths_of_networks(shape, dtype, channels_last):
    for widen in (False, True):
        farkas_sum(shape, device="cuda", dtype=dtype, channels_last=channels_last, widen=widen, aggregate="mean")
    for above in (0.5, -0.5):
        farkas_sum(shape, device="cuda", dtype=dtype, channels_last=channels_last, aggregate="mean", above=above)


@pytest.mark.parametrize("rule", ["softplus", "max"])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_a_farkasnet_agrees_with_the_cpu(order, rule, fused):  # noqa: F811
    here = create_model("farkasnet18", "farkas", num_classes=10, in_chans=3, img_size=32, width=8, rule=rule).double()
    there = copy.deepcopy(here).float().cuda().to(memory_format=order)
    x = torch.randn(4, 3, 32, 32)
    expected = here(x.double())
    expected.square().sum().backward()
    with all_digits(torch.device("cuda")):
        found = there(x.cuda().contiguous(memory_format=order))
        found.square().sum().backward()
    assert len(fused) == 7
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-3, atol=1e-4)
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        # A unit that is 0 up to rounding may be on in one of them only.
        assert (q.grad.cpu() - p.grad).norm() <= 1e-2 * p.grad.norm()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_farkasnet_runs_on_a_device_that_is_not_the_current_one(fused):  # noqa: F811
    here = create_model("farkasnet18", "farkas", num_classes=10, in_chans=3, img_size=32, width=8).cuda(0)
    there, x = copy.deepcopy(here).cuda(1), torch.randn(4, 3, 32, 32)
    expected, found = here(x.cuda(0)), there(x.cuda(1))
    found.sum().backward()
    assert len(fused) == 14
    assert found.device == torch.device("cuda:1")
    torch.testing.assert_close(found.cpu(), expected.cpu())


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_places_beyond_two_billion(order):
    """The first and the last image of many are what they are alone."""
    if torch.cuda.mem_get_info()[0] < 40e9:
        pytest.skip("needs 40 GB")
    offsets, last = torch.randn(64, device="cuda"), torch.randn((), device="cuda")

    def result_and_gradient(x):
        x = x.contiguous(memory_format=order).requires_grad_()
        y = relu_of_closed_sum(x, x, offsets, last, base=1 / 64, margin=0.1, cutoff=0.0)
        return y.detach(), torch.autograd.grad(y, x, y.detach())[0]

    images = torch.empty(8320, 65, 64, 64, device="cuda", dtype=torch.bfloat16, memory_format=order).normal_()
    assert images.numel() > 2**31
    found = result_and_gradient(images)
    for one in (slice(0, 1), slice(-1, None)):
        for many, alone in zip(found, result_and_gradient(images.detach()[one]), strict=True):
            torch.testing.assert_close(many[one], alone)
