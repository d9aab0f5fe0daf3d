"""Files somebody else made: they open no other file, start no program, and end in one line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from neuronal.data.catalogue import load
from tests.data.made_up import encoded, pixels, write_folders, write_parquet

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
