import json
import os
import stat

import pytest

from neuronal.experiments.record import Record, cell_name, read, write, write_whole


def test_a_record_comes_back_from_disk_as_it_was(quick_records, tmp_path):
    for record in quick_records:
        path = write(record, tmp_path)
        assert path.name == cell_name(record.recipe, record.seed)
        assert read(path) == record


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "null",
        lambda text: text.replace('"seed"', '"sed"'),
        lambda text: text.replace('"accuracy"', '"acc"'),
        lambda text: text.replace('"family"', '"famly"'),
        lambda text: "\0" * len(text),
    ],
)
def test_a_damaged_file_is_a_value_error(quick_records, tmp_path, damage):
    path = write(quick_records[0], tmp_path)
    path.write_text(damage(path.read_text()))
    with pytest.raises(ValueError, match=r"not JSON|not a record|Unknown field"):
        read(path)


def test_bytes_that_are_no_text_are_a_value_error(tmp_path):
    (tmp_path / "a.json").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(ValueError, match="not JSON"):
        read(tmp_path / "a.json")


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_whole(path, "new")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            write_whole(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    write_whole(path, "new")
    assert path.read_text() == "new"


def test_a_written_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    write_whole(tmp_path / "ours", "")
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "ours")}
    assert len(modes) == 1


def test_the_file_is_strict_json(quick_records):
    text = json.dumps(quick_records[0].to_json(), allow_nan=False)
    assert Record.from_json(json.loads(text)) == quick_records[0]
