"""Layers in two processes: gradients that are averaged, parameters that are sharded."""

from neuronal.nn.families import FAMILIES
from tests.launch import launched


def test_layers_are_trained_sharded_and_saved_in_two_processes(tmp_path):
    expected = [f"{name} agrees" for name in (*FAMILIES, "FarkasLinear", "GeometricLinear")]
    for code, out, err in launched(f"tests.nn.two {tmp_path}"):
        assert code == 0, err
        assert out.splitlines() == expected
