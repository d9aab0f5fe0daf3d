"""What tests/nn/test_whole_model.py asks of the interpreted kernels, asked of the compiled ones."""

import pytest
import torch

from neuronal.models.registry import create_model
from neuronal.nn import at_once
from tests.nn.test_whole_model import (  # noqa: F401
    as_on_a_gpu,
    test_a_compiled_model_computes_the_same,
    test_a_layer_that_is_not_used_gets_no_gradient,
    test_a_part_without_autocast_has_weights_in_full_precision,
    test_accelerate_wraps_and_unwraps_it,
    test_copies_are_of_their_own_and_pickled_models_plain,
    test_gradients_can_be_differentiated_again,
    test_more_layers_than_a_launch_takes,
    test_nothing_is_kept_behind_a_call,
    test_outputs_and_gradients_are_those_of_the_layers,
    test_the_compiler_makes_one_graph_of_it,
    test_under_autocast_weights_come_in_its_precision,
)


@pytest.mark.parametrize("neuron", ["geometric", "farkas"])
def test_the_compiler_can_record_them(neuron):
    """With memory the recording owns: nothing the kernels make may outlive a call."""
    torch.manual_seed(0)
    model = create_model("resnet18", neuron, width=8, norm="none", num_classes=10, img_size=32).cuda()
    x = torch.randn(8, 3, 32, 32, device="cuda")
    expected = model(x)
    compiled = torch.compile(at_once(model), mode="reduce-overhead")
    for _ in range(4):
        found = compiled(x)
        found.square().sum().backward()
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
        # Gradients are in the recording's memory, for any model: the next replay would add to its own.
        model.zero_grad()
    torch.compiler.reset()
