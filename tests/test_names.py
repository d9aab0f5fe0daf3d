import pytest

from neuronal.names import UnknownName, find, unknown


def test_an_unknown_name_says_what_was_given_what_is_close_and_what_exists():
    table = {"zero_bias": 1, "standard": 2}
    assert find(table, "standard", "neuron") == 2
    with pytest.raises(UnknownName, match=r"neuron 'zero_bais'.*'zero_bias'.*: standard, zero_bias"):
        find(table, "zero_bais", "neuron")


def test_nothing_close_gives_no_hint():
    assert unknown("neuron", "xyz", ["standard"]) == "Unknown neuron 'xyz'. There are: standard."
    assert unknown("neuron", "xyz", []) == "Unknown neuron 'xyz'. There are: none."
