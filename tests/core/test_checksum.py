"""What was written under a checksum has to be found under it later: the numbers below are those of before."""

import zlib
from hashlib import sha256

import numpy as np
import pytest
import torch

from neuronal.core.checksum import checksum, raw
from neuronal.core.files import json_checksum, tensor_checksum
from neuronal.data.arrays import Arrays
from neuronal.data.cache import array_checksum, contents
from neuronal.data.catalogue import load

TENSORS = {"b": torch.arange(6.0).view(2, 3).mT, "a": torch.tensor(1, dtype=torch.bfloat16)}
ARRAYS = Arrays(
    np.arange(24, dtype=np.uint8).reshape(2, 3, 4)[:, ::-1],
    np.array([1, 0]),
    np.ones((1, 3, 4), np.uint8),
    np.array([1]),
    ("a", "b"),
)


def test_checksums_are_those_of_before():
    assert (load("digits").checksum(), load("moons").checksum()) == ("7b2ecc8246969978", "07f940e1b959c328")
    assert array_checksum(ARRAYS) == "36edc4a7c1ef98161689af1931e51acc58870927857895d849c52c8d021bdbf4"
    assert contents(ARRAYS) == "8383c032e2c6c144974b63ebda5277d9c2172f22f42930b75382bf6d98a4a310"
    assert tensor_checksum("h", TENSORS) == "40105a0c4af07b0969d6847a21b25e18403b4dd763899399b247a3810f7b6d22"
    assert json_checksum({"b": [1, 2.5], "a": None}) == json_checksum({"a": None, "b": [1, 2.5]})
    assert json_checksum({"b": [1, 2.5], "a": None}) == sha256(b'{"a": null, "b": [1, 2.5]}').hexdigest()
    assert zlib.crc32(raw(TENSORS["b"])) == 1607444346


def test_parts_are_hashed_one_after_the_other():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = sha256("é".encode() + b"ab" + values.tobytes()).hexdigest()
    assert checksum("é", b"ab", values) == checksum("é", b"ab", torch.from_numpy(values)) == expected
    assert checksum() == sha256().hexdigest()


@pytest.mark.parametrize(
    "values", [np.arange(6.0).reshape(2, 3), np.array(1), np.empty((0, 3)), np.array([True, False])]
)
def test_raw_bytes_go_row_by_row_whatever_the_order_in_memory(values):
    turned = values.T.copy().T
    assert bytes(raw(turned)) == bytes(raw(torch.from_numpy(values))) == bytes(raw(values)) == values.tobytes()
    assert bytes(raw(torch.from_numpy(turned.T).T if values.ndim > 1 else torch.from_numpy(values))) == values.tobytes()
