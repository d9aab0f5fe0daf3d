import pytest

from neuronal.names import UnknownName, find, unknown


def test_a_known_name_is_found():
    assert find({"a": 1}, "a", "letter") == 1


def test_an_unknown_name_says_what_was_given_what_is_close_and_what_exists():
    with pytest.raises(UnknownName) as error:
        find({"zero_bias": 1, "standard": 2}, "zero_bais", "neuron")
    assert str(error.value) == "Unknown neuron 'zero_bais'. Did you mean 'zero_bias'? There are: standard, zero_bias."


def test_nothing_close_gives_no_hint():
    assert unknown("neuron", "xyz", ["standard"]) == "Unknown neuron 'xyz'. There are: standard."
    assert unknown("neuron", "xyz", []) == "Unknown neuron 'xyz'. There are: none."
