import json
import os
import stat
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neuronal.core.files import Damaged, plain_json, read_sealed, write_sealed, write_whole
from tests.damage import no_space

VALUES = {"a": [1, 2.5, "text é"], "b": {"c": None, "accuracy": 0.123456789}}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_any_changed_byte_and_any_cut_is_noticed_or_means_nothing(tmp_path, position, byte):
    path = tmp_path / "a"
    write_sealed(path, VALUES)
    assert json.loads(path.read_text())["values"] == read_sealed(path) == VALUES
    data = bytearray(path.read_bytes())
    position %= len(data)
    path.write_bytes(data[:position])
    with suppress(Damaged):
        assert read_sealed(path) == VALUES
    data[position] = byte
    path.write_bytes(data)
    with suppress(Damaged):
        assert read_sealed(path) == VALUES


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"values": 1}', '{"sha256": 1, "values": 2}', "\0\0"])
def test_anything_else_is_damaged(tmp_path, text):
    (tmp_path / "a").write_text(text)
    with pytest.raises(Damaged, match=r"not JSON|no checksum|checksum does not fit"):
        read_sealed(tmp_path / "a")


def test_not_a_number_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_sealed(tmp_path / "a", {"x": float("nan")})
    assert not list(tmp_path.iterdir())


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, "old")
    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, no_space)
            with pytest.raises(OSError, match=rf"No space left on device: '{path}'"):
                write_whole(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    write_whole(path, "new")
    assert path.read_text() == "new"


def test_a_folder_in_the_way_is_named_and_not_the_file_beside_it(tmp_path):
    (tmp_path / "page.html").mkdir()
    with pytest.raises(OSError, match="directory") as refused:
        write_whole(tmp_path / "page.html", "text")
    assert refused.value.filename == str(tmp_path / "page.html")


def test_a_written_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    write_whole(tmp_path / "ours", "")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours")}
    assert len(modes) == 1


def test_json_for_people_is_the_same_json():
    values = {"a": [1.5, [2, 3]], "b": [{"c": "x\ny [\n1]"}, {}], "empty": {}, "none": None, "tuple": (1, 2)}
    text = plain_json(values)
    assert json.loads(text) == {**values, "tuple": [1, 2]}
    assert ' "a": [1.5, [2, 3]],' in text.splitlines()
    with pytest.raises(ValueError, match="JSON compliant"):
        plain_json({"a": [float("nan")]})
