"""What tests/ops/kernels asks of interpreted kernels, asked of the compiled ones."""

from tests.ops.kernels.test_angles import (  # noqa: F401
    test_errors_are_below_2e_7,
    test_places_are_those_of_whole_numbers,
    test_quarter_turns,
    test_small_angles_keep_all_their_digits,
    test_what_is_beyond_float32_stays_bounded,
)
from tests.ops.kernels.test_farkas_sum import (  # noqa: F401
    test_a_result_that_was_kept_elsewhere_may_come_back_in_another_order,
    test_gradients_can_be_differentiated_again,
    test_gradients_of_a_kind_of_their_own,
    test_many_gradients_at_once,
    test_nothing_passes_at_zero,
    test_offsets_that_are_a_piece_of_something,
    test_precisions,
    test_programs_that_take_several_tiles,
    test_sums_and_gradients,
    test_the_skip_and_the_branch_may_lie_in_other_orders,
    test_what_is_no_number_goes_where_it_goes_in_torch,
)
from tests.ops.kernels.test_grid import (  # noqa: F401
    no_pairs,
    test_a_coupling_that_is_not_learnt_has_the_same_gradients,
    test_gradients_against_a_dense_implicit_solve,
    test_gradients_that_are_there_are_left_alone,
    test_nodes_solve_them_and_the_residual_is_a_bound,
    test_rows_of_all_widths_in_one_call,
    test_rows_that_are_done_are_left_alone,
    test_strong_couplings,
)
