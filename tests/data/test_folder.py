import numpy as np
import pytest
from PIL import Image

from neuronal.data.catalogue import load
from tests.data.made_up import pixels, write_folders, write_image


@pytest.mark.parametrize("test", ["test", "val", "validation"])
def test_class_folders_come_back_pixel_by_pixel(tmp_path, test):
    written = write_folders(tmp_path / "pets", splits=("train", test))
    data = load(str(tmp_path / "pets"))
    assert (data.name, data.classes) == ("pets", ("cat", "dog"))
    for split, part in (("train", data.train), (test, data.test)):
        assert np.array_equal(part.stored.numpy(), np.concatenate([written[split, name] for name in data.classes]))
        assert part.y.tolist() == [0] * 10 + [1] * 10


@pytest.mark.parametrize("split", ["", "train"])
def test_without_a_test_folder_a_fifth_of_each_class_is_split_off_and_it_is_said(tmp_path, split):
    written = write_folders(tmp_path, splits=(split,))
    data, again = load(str(tmp_path)), load(str(tmp_path))
    assert data.test.y.bincount().tolist() == [2, 2]
    assert data.train.y.bincount().tolist() == [8, 8]
    images = {image.tobytes() for part in written.values() for image in part}
    assert {one.numpy().tobytes() for part in (data.train, data.test) for one in part.stored} == images
    assert data.test.stored.equal(again.test.stored)
    assert "without a test split: 20% of it, drawn with seed 0" in data.source


def test_images_of_many_sizes_become_squares_of_the_shortest_side(tmp_path):
    # Each half of each image has one colour, so that the middle square of a scaled image is known without scaling.
    for name, (height, width) in {"a": (8, 8), "b": (16, 40), "c": (30, 10)}.items():
        image = np.zeros((3, height, width), dtype=np.uint8)
        image[0, :, : width // 2], image[1, :, width // 2 :] = 200, 100
        for n in range(2):
            write_image(tmp_path / "train" / name / f"{n}.png", image)
            write_image(tmp_path / "test" / name / f"{n}.png", image)
    data = load(str(tmp_path))
    assert data.shape == (3, 8, 8)
    assert "scaled and cut to 8x8" in data.source
    for image in data.train.stored:
        assert image[0].tolist() == [[200] * 4 + [0] * 4] * 8
        assert image[1].tolist() == [[0] * 4 + [100] * 4] * 8


def test_grey_stays_grey_unless_one_image_has_colour(tmp_path):
    write_folders(tmp_path / "grey", shape=(1, 4, 4))
    assert load(str(tmp_path / "grey")).in_chans == 1
    write_image(tmp_path / "grey/train/cat/colour.png", pixels(1, (3, 4, 4))[0])
    data = load(str(tmp_path / "grey"))
    assert data.in_chans == 3
    assert data.train.stored[0, 0].equal(data.train.stored[0, 2])


def test_what_is_no_image_by_its_name_is_left_alone(tmp_path):
    write_folders(tmp_path)
    (tmp_path / "train/cat/notes.txt").write_text("x")
    (tmp_path / "train/.hidden").mkdir()
    (tmp_path / "train/cat/.half.png").write_text("x")
    assert len(load(str(tmp_path)).train) == 20


def damage_deep(folder):
    Image.fromarray(np.zeros((4, 4), dtype=np.uint16)).save(folder / "train/cat/000.png")


DAMAGES = {
    "foreign": (lambda folder: (folder / "train/cat/003.png").write_text("hello"), "003.png: not an image"),
    "deep": (damage_deep, "000.png: an image with more than 8 bits per channel"),
    "unknown class": (
        lambda folder: (folder / "test/dog").rename(folder / "test/horse"),
        "horse: a class that the training folder does not have",
    ),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_told_in_one_line_with_the_file(tmp_path, what):
    write_folders(tmp_path)
    damage, reason = DAMAGES[what]
    damage(tmp_path)
    with pytest.raises(ValueError, match=reason) as raised:
        load(str(tmp_path))
    assert "\n" not in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_a_place_with_nothing_to_read(tmp_path):
    with pytest.raises(ValueError, match="nothing to read there"):
        load(str(tmp_path))
    with pytest.raises(ValueError, match="no such file or folder"):
        load(str(tmp_path / "nowhere"))
    (tmp_path / "data.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"needs to be a \.csv table or a folder"):
        load(str(tmp_path / "data.xlsx"))
