"""Small files in the layouts the readers know."""

from __future__ import annotations

import json
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def pixels(count, shape=(1, 28, 28), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def encoded(image, kind="PNG"):
    """An image of shape (channels, height, width) as the bytes of a file."""
    file = BytesIO()
    Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(file, kind)
    return file.getvalue()


def write_parquet(file, images, labels, *, image="image", label="label", names=None):
    """``images`` are arrays, or bytes that are taken as they are."""
    cells = [
        {"bytes": encoded(one) if isinstance(one, np.ndarray) else one, "path": f"{n}.png"}
        for n, one in enumerate(images)
    ]
    table = pa.table({image: cells, label: pa.array([None if y is None else int(y) for y in labels], pa.int64())})
    if names:
        features = {label: {"names": names, "_type": "ClassLabel"}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)


def write_set(root, name="mnist", num_train=12, num_test=5, shape=(1, 28, 28), **columns):
    """Both splits of an image set; returns what was written."""
    parts = []
    for split, count, seed in (("train", num_train, 0), ("test", num_test, 1)):
        x, y = pixels(count, shape, seed), np.arange(count) % 10
        write_parquet(root / name / f"{split}-00000-of-00001.parquet", x, y, **columns)
        parts += [x, y]
    return parts


def write_image(file, image):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(encoded(image))


def write_folders(folder, *, per_class=10, shape=(3, 6, 6), splits=("train", "test"), classes=("cat", "dog")):
    """``<split>/<class>/<n>.png``; a split called "" is one level of class folders."""
    written = {}
    for split in splits:
        for number, name in enumerate(classes):
            images = pixels(per_class, shape, seed=10 * number + len(split))
            for n, image in enumerate(images):
                write_image(folder / split / name / f"{n:03}.png", image)
            written[split, name] = images
    return written
