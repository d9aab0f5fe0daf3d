"""Files somebody else made: they open no other file, start no program, and end in one line."""

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from neuronal.data.catalogue import load
from neuronal.report import Bullets, Document, render_html
from tests.data.made_up import encoded, pixels, write_folders, write_image, write_parquet

IMAGE = pixels(1, (3, 6, 6))[0]


@pytest.mark.parametrize("kind", ["EPS", "GIF", "TIFF", "PPM", "ICO"])
def test_an_image_is_opened_as_what_its_name_may_be_and_as_nothing_else(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *_, **__: pytest.fail("Ghostscript was started"))
    write_folders(tmp_path / "set")
    (tmp_path / "set/train/cat/009.png").write_bytes(encoded(IMAGE, kind))
    with pytest.raises(ValueError, match=r"009\.png: not an image of a format that is read"):
        load(str(tmp_path / "set"))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP"])
def test_the_formats_that_are_read(tmp_path, kind):
    for split in ("train", "test"):
        write_parquet(tmp_path / f"{split}-0.parquet", [encoded(np.full_like(IMAGE, 8), kind)] * 2, [0, 1])
    assert (load(str(tmp_path)).train.stored == 8).all()


def test_text_in_the_place_of_an_image_is_no_path(tmp_path):
    for split in ("train", "test"):
        Image.fromarray(IMAGE.transpose(1, 2, 0)).save(tmp_path / "secret.png")
        cells = [{"bytes": str(tmp_path / "secret.png")}] * 2
        pq.write_table(pa.table({"image": cells, "label": [0, 1]}), tmp_path / f"{split}-0.parquet")
    with pytest.raises(ValueError, match="row 0: has no image bytes"):
        load(str(tmp_path))


def test_a_pipe_or_a_broken_link_among_images_is_named(tmp_path):
    """Reading a pipe would never end."""
    for name, make in {"9.png": os.mkfifo, "8.png": lambda file: file.symlink_to("nowhere")}.items():
        write_folders(tmp_path / name)
        make(tmp_path / name / "train/cat" / name)
        with pytest.raises(ValueError, match=rf"{name}: no regular file"):
            load(str(tmp_path / name))


def test_one_odd_image_does_not_make_all_as_small(tmp_path):
    write_folders(tmp_path, shape=(1, 16, 16))
    write_image(tmp_path / "test/dog/odd.png", pixels(1, (1, 1, 500))[0])
    with pytest.raises(ValueError, match=r"odd\.png: a side of 1, and all images are scaled"):
        load(str(tmp_path))


def write_labels(folder, labels, **columns):
    for split in ("train", "test"):
        write_parquet(folder / f"{split}-0.parquet", pixels(len(labels), (1, 4, 4)), labels, **columns)
    return str(folder)


@pytest.mark.parametrize("label", [4, 10**9, 2**62])
def test_a_label_makes_no_more_classes_than_there_are_rows(tmp_path, label):
    with pytest.raises(ValueError, match="only 4 classes" if label < 2**31 else "needs a class number from 0"):
        load(write_labels(tmp_path, [0, label]))


def test_codes_for_the_terminal_in_class_names_are_replaced(tmp_path):
    names = ["a\x1b[31m\x1b]0;title\x07", "b\x01\u202e"]
    data = load(write_labels(tmp_path, [0, 1], names=names))
    assert data.classes == ("a\ufffd[31m\ufffd]0;title\ufffd", "b\ufffd\ufffd")
    page = render_html(Document(names[1], [Bullets([names[0]])]))
    assert not set("\x1b\x07\x01\u202e") & set(page)


@pytest.mark.parametrize("text", ["[" * 200_000, "{"])
def test_class_names_that_cannot_be_read_are_told(tmp_path, text):
    file = Path(write_labels(tmp_path, [0, 1])) / "train-0.parquet"
    pq.write_table(pq.read_table(file).replace_schema_metadata({"huggingface": text}), file)
    with pytest.raises(ValueError, match="its class names: cannot be read as JSON") as raised:
        load(str(tmp_path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("answers", "classes"),
    [
        (("1000001", "1000002", "2000003"), None),
        (("1234567", "1234568"), None),
        (("12345678901234567890123", "12345678901234567890124"), None),
        (("0.1", "0.10000000000000000001"), None),
        (("-0", "0.0", "0"), ("0",)),
        (("1", "1.0", "1e0", "+1", "2e0", "100"), ("1", "2", "100")),
        (("1_000", "1000"), ("1000", "1_000")),
    ],
)
def test_classes_of_a_table_are_one_where_the_numbers_are_one(tmp_path, answers, classes):
    rows = "".join(f"{n},{answer}\n" for n in range(5) for answer in answers)
    (tmp_path / "a.csv").write_text(f"a,class\n{rows}")
    assert load(str(tmp_path / "a.csv")).classes == (classes or answers)


@pytest.mark.parametrize("text", [",5\n1,2\n3,4\n", "1_000,2\n1,2\n3,4\n5_0,1\n"])
def test_a_cell_that_is_no_number_is_told_and_a_row_of_nothing_is_no_header(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=r"needs a finite number, got '(|5_0)'"):
        load(str(tmp_path / "a.csv"))


def test_many_classes_take_no_more_memory_than_rows(tmp_path):
    """A mask for each class would be 400 MB here."""
    rows = "".join(f"{n},c{n}\n" for n in range(20_000))
    (tmp_path / "a.csv").write_text(f"a,class\n{rows}")
    started = time.process_time()
    assert len(load(str(tmp_path / "a.csv")).classes) == 20_000
    assert time.process_time() - started < 10


def test_an_entry_of_the_cache_without_its_checksum_is_made_anew(tmp_path, cache, new_process):
    write_folders(tmp_path / "set")
    load(str(tmp_path / "set"))
    (entry,) = cache.iterdir()
    (entry / "seal.json").unlink()
    new_process()
    with pytest.warns(UserWarning, match="made anew"):
        load(str(tmp_path / "set"))
    assert (entry / "seal.json").exists()
    (entry / "seal.json").write_text("[" * 200_000)
    new_process()
    with pytest.warns(UserWarning, match="made anew"):
        load(str(tmp_path / "set"))
