"""What tests/nn/test_whole_model.py asks of the interpreted kernels, asked of the compiled ones."""

import pytest
import torch

from tests.nn.test_whole_model import (  # noqa: F401
    as_on_a_gpu,
    test_a_compiled_model_computes_the_same,
    test_gradients_can_be_differentiated_again,
    test_more_layers_than_a_launch_takes,
    test_nothing_is_kept_behind_a_call,
    test_outputs_and_gradients_are_those_of_the_layers,
    test_under_autocast_weights_come_in_its_precision,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
