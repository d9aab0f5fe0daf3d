"""What tests/ops and tests/ops/kernels ask of interpreted kernels, asked of the compiled ones."""

import pytest

from tests.ops.kernels.test_device_functions import (  # noqa: F401
    test_errors_are_below_2e_7,
    test_places_are_those_of_whole_numbers,
    test_small_angles_keep_all_their_digits,
    test_what_is_beyond_float32_stays_bounded,
)
from tests.ops.kernels.test_mean_field import (  # noqa: F401
    only,
    test_a_coupling_that_is_not_learnt_has_the_same_gradients,
    test_gradients_against_a_dense_implicit_solve,
    test_rows_of_all_widths_in_one_call,
    test_rows_that_are_done_are_left_alone,
    test_the_residual_is_a_bound_on_the_true_one_and_within_the_tolerance,
)
from tests.ops.kernels.test_weights import (  # noqa: F401
    calls,
    test_gradients_can_be_differentiated_again,
    test_offsets_of_farkas_layers_that_are_pieces_of_others,
    test_outputs_and_gradients_of_a_network,
    test_under_autocast_weights_come_in_its_precision,
    test_vectors_shared_among_units_or_pieces_of_others,
    test_what_the_kernels_do_not_know_is_computed_in_plain_steps,
)

pytestmark = pytest.mark.usefixtures("as_on_cuda")
