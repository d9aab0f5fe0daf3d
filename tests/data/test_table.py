import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuronal.data.catalogue import load

numbers = st.floats(-1e6, 1e6, allow_nan=False, width=32)


def write(folder, text, name="mine.csv"):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return str(file)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 4).flatmap(lambda w: st.lists(st.lists(numbers, min_size=w + 1, max_size=w + 1), min_size=3)))
def test_every_row_comes_back_once_in_one_of_the_splits(tmp_path, rows):
    data = load(write(tmp_path, "\n".join(",".join(map(repr, row)) for row in rows)))
    assert data.task == "regression"
    assert data.classes == ()
    assert len(data.test) == round(0.2 * len(rows))
    back = [[*x, y] for part in (data.train, data.test) for x, y in zip(part.x.tolist(), part.y.tolist(), strict=True)]
    assert sorted(back) == sorted(rows)
    assert (data.in_chans, data.img_size, data.num_outputs) == (len(rows[0]) - 1, 1, 1)


def test_a_header_names_the_task(tmp_path):
    rows = "".join(f"{n},{n % 3 - 1}\n" for n in range(30))
    data = load(write(tmp_path, "size,Class\n" + rows))
    assert (data.task, data.classes, len(data.train) + len(data.test)) == ("classification", ("-1", "0", "1"), 30)
    assert data.test.y.bincount().tolist() == [2, 2, 2]
    both = [(x.item(), y.item()) for part in (data.train, data.test) for x, y in zip(part.x, part.y, strict=True)]
    assert all(y == x % 3 for x, y in both)
    assert load(write(tmp_path, "size,price\n" + rows)).task == "regression"


def test_words_are_classes_and_1_is_1_point_0(tmp_path):
    assert load(write(tmp_path, "1,red\n2,blue\n3,red\n4,blue\n")).classes == ("blue", "red")
    assert load(write(tmp_path, "a,label\n1,1\n2,1.0\n3,10\n4,2\n")).classes == ("1", "2", "10")


def test_uci_tables_are_regression_whatever_their_columns_are_called(root):
    write(root, "".join(f"{','.join('1' * 11)},{n % 6}\n" for n in range(10)), "uci/wine.csv")
    data = load("wine")
    assert (data.task, data.shape, data.name) == ("regression", (11,), "wine")
    assert data.train.y.dtype.is_floating_point


BAD = {
    "a,b\n": "needs at least 2 rows of numbers, got 0",
    "": "needs at least 2 rows of numbers, got 0",
    "1\n2\n3\n": "needs at least 2 columns",
    "1,2\n3,4\n5\n": "line 3: needs 2 columns, got 1",
    "1,2\n3,4\nx,6\n": "line 3: needs a finite number, got 'x'",
    "1,2\n,4\n5,6\n": "line 2: needs a finite number, got ''",
    "1,2\nnan,4\n5,6\n": "line 2: needs a finite number, got 'nan'",
    "1,2\n3,nan\n5,6\n": "line 2: needs a finite number, got 'nan'",
    "1,2\n3,4\n5,inf\n": "line 3: needs a finite number, got 'inf'",
    "1,2\n3e300,4\n5,6\n": "line 2: 3e300 is too large for 32 bits",
    "1,2\n3, \n5,6\n": "line 2: the last column, the answer, is empty",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_table_is_told_in_one_line(tmp_path, text):
    file = write(tmp_path, text)
    with pytest.raises(ValueError, match=BAD[text]) as raised:
        load(file)
    assert str(raised.value).startswith(file)
    assert "\n" not in str(raised.value)


def test_a_foreign_file_is_told_in_one_line(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_bytes(bytes(np.random.default_rng(0).integers(128, 256, 1000, dtype=np.uint8)))
    with pytest.raises(ValueError, match=r"mine\.csv: cannot be read as a table"):
        load(str(file))
