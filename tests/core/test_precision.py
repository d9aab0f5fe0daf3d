"""Products of float32 numbers with all their digits: the switches are torch's own and can be looked at without a GPU."""

import pytest
import torch

from neuronal.core.precision import all_digits


def short():
    return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("matmul", ["highest", "high"])
def test_a_gpu_is_told_not_to_shorten_and_all_is_as_before(matmul):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(matmul)
    try:
        was = short()
        with all_digits(torch.device("cuda")):
            if hasattr(torch.backends.cudnn, "conv"):
                assert torch.backends.cudnn.conv.fp32_precision == "ieee"
                assert torch.backends.cuda.matmul.fp32_precision != "tf32"
            else:
                assert short() == (False, False)
        assert short() == was
        with pytest.raises(ValueError, match="odd"), all_digits(torch.device("cuda")):
            raise ValueError("odd")
        assert short() == was
        assert torch.get_float32_matmul_precision() == matmul
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_cpu_is_left_alone():
    was = short()
    with all_digits(torch.device("cpu")):
        assert short() == was
