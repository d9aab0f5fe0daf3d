import pytest

from neuronal.core.words import counted, one_line, times


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 seeds"), (1, "1 seed"), (3, "3 seeds"), ("1", "1 seed"), ("3 or 4", "3 or 4 seeds")]
)
def test_numbers_come_with_the_singular_or_the_plural(count, said):
    assert counted(count, "seed") == said


def test_shapes():
    assert (times((3, 32, 32)), times([7])) == ("3x32x32", "7")


def test_an_error_is_one_line_of_readable_length_and_never_empty():
    assert one_line(ValueError("a\n b\tc.")) == "a b c"
    assert one_line(KeyError()) == "KeyError"
    assert one_line(ValueError("x" * 201)) == "x" * 200 + "…"
