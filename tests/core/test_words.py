import pytest

from neuronal.core.words import counted


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 seeds"), (1, "1 seed"), (3, "3 seeds"), ("1", "1 seed"), ("3 or 4", "3 or 4 seeds")]
)
def test_numbers_come_with_the_singular_or_the_plural(count, said):
    assert counted(count, "seed") == said
