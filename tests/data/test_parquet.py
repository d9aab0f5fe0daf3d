import numpy as np
import pytest

from neuronal.data.catalogue import load
from tests.damage import cut, empty
from tests.data.made_up import encoded, pixels, write_parquet, write_set


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10", "cifar100", "svhn", "imagenet32", "./mine"])
def test_images_come_back_pixel_by_pixel_with_every_name_of_a_column(root, name, monkeypatch):
    monkeypatch.chdir(root)
    columns = {"image": "img", "label": "fine_label"} if name == "cifar100" else {}
    shape = (1, 28, 28) if "mnist" in name else (3, 32, 32)
    train_x, train_y, test_x, test_y = write_set(root, name, shape=shape, **columns)
    data = load(name)
    for part, x, y in ((data.train, train_x, train_y), (data.test, test_x, test_y)):
        assert np.array_equal(part.stored.numpy(), x)
        assert part.y.tolist() == y.tolist()
    assert np.array_equal(data.train.x.numpy(), train_x.astype(np.float32) / 255)
    assert (data.shape, data.task) == (shape, "classification")
    assert len(data.classes) == {"cifar100": 100, "imagenet32": 1000}.get(name, 10)


def test_images_of_ones_own_need_to_be_square(tmp_path):
    write_set(tmp_path, "wide", shape=(3, 5, 6))
    with pytest.raises(ValueError, match="row 0: needs a square image, got 5x6"):
        load(str(tmp_path / "wide"))


def test_images_of_all_sizes_are_fitted(root):
    wide, high = pixels(1, (3, 224, 300))[0], pixels(1, (3, 500, 250))[0]
    for split in ("train", "validation"):
        write_parquet(root / f"imagenet/{split}-00000-of-00001.parquet", [wide, high], [3, 999])
    data = load("imagenet")
    assert data.shape == (3, 224, 224)
    assert len(data.classes) == 1000
    assert np.array_equal(data.train.stored[0].numpy(), wide[:, :, 38:262])
    # The other one is 224 x 448 after scaling, and what is left of it has its mean.
    assert abs(data.test.stored[1].double().mean() - high[:, 125:375].mean()) < 1


def test_imagenet32_is_tested_on_the_split_whose_labels_are_public(root):
    write_set(root, "imagenet32", shape=(3, 32, 32))
    public = pixels(3, (3, 32, 32), seed=9)
    write_parquet(root / "imagenet32/validation-00000-of-00001.parquet", public, [5, 6, 7])
    assert np.array_equal(load("imagenet32").test.stored.numpy(), public)


def test_several_files_are_read_in_the_order_of_their_names(root):
    train_x, *_ = write_set(root, num_train=3)
    more = pixels(4, seed=5)
    write_parquet(root / "mnist/train-00001-of-00002.parquet", more, [9, 8, 7, 6])
    data = load("mnist")
    assert np.array_equal(data.train.stored.numpy(), np.concatenate([train_x, more]))
    assert data.train.y.tolist() == [0, 1, 2, 9, 8, 7, 6]


def test_class_names_come_with_the_file_where_we_have_none(root):
    names = [f"kind {n}" for n in range(100)]
    write_set(root, "cifar100", shape=(3, 32, 32), label="fine_label", names=names)
    assert load("cifar100").classes == tuple(names)


def test_a_lossless_image_of_another_format_is_the_same_image(root):
    write_set(root)
    image = pixels(1, seed=3)[0]
    write_parquet(root / "mnist/test-00000-of-00001.parquet", [encoded(image, "BMP"), encoded(image)], [0, 1])
    first, second = load("mnist").test.stored
    assert first.equal(second)
    assert np.array_equal(first.numpy(), image)


def rewrite(change):
    """Writes the training file again with one thing changed in its images, labels or columns."""

    def damage(file):
        images, labels, columns = list(pixels(3)), [0, 1, 2], {}
        change(images, labels, columns)
        write_parquet(file, images, labels, **columns)

    return damage


def spoil_a_page(file):
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    file.write_bytes(bytes(content))


DAMAGES = {
    "truncated file": (cut, "cannot be read as parquet"),
    "empty file": (empty, "cannot be read as parquet"),
    "foreign file": (lambda file: file.write_text("a,b\n1,2\n" * 50), "cannot be read as parquet"),
    "spoilt page": (spoil_a_page, "damaged after row 0"),
    "no image column": (rewrite(lambda x, y, c: c.update(image="photo")), "needs a column called image or img"),
    "no label column": (rewrite(lambda x, y, c: c.update(label="kind")), "needs a column called label or fine_label"),
    "no bytes": (rewrite(lambda x, y, c: x.__setitem__(1, b"")), "row 1: has no image bytes"),
    "not an image": (rewrite(lambda x, y, c: x.__setitem__(1, b"hello")), "row 1: not an image"),
    "cut image": (rewrite(lambda x, y, c: x.__setitem__(2, encoded(x[2])[:200])), "row 2: cannot be read as an image"),
    "large image": (
        rewrite(lambda x, y, c: x.__setitem__(0, pixels(1, (1, 28, 29))[0])),
        "row 0: needs an image of 1x28x28, got 1x28x29",
    ),
    "negative label": (rewrite(lambda x, y, c: y.__setitem__(1, -1)), "row 1: needs a class number from 0"),
    "no label": (rewrite(lambda x, y, c: y.__setitem__(1, None)), "row 1: needs a class number from 0"),
    "high label": (rewrite(lambda x, y, c: y.__setitem__(1, 10)), "has label 10, but there are only 10 classes"),
    "no rows": (rewrite(lambda x, y, c: (x.clear(), y.clear())), "has no rows"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_told_in_one_line_with_the_file(root, what):
    write_set(root)
    file = root / "mnist/train-00000-of-00001.parquet"
    damage, reason = DAMAGES[what]
    damage(file)
    with pytest.raises(ValueError, match=reason) as raised:
        load("mnist")
    assert "\n" not in str(raised.value)
    assert str(file.parent if what == "high label" else file) in str(raised.value)
