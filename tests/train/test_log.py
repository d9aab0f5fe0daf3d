import json
import sys
from dataclasses import replace
from math import isnan
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from neuronal.train.board import Board
from neuronal.train.log import Log, read_log
from neuronal.train.progress import Epoch
from tests.train.small import data, network, train

ONE = Epoch(1, 4, 0.1, 0.5, 0.01, {"a": 0.25})
TWO = replace(ONE, number=2, steps=8)


def test_a_log_is_what_fit_returns(tmp_path):
    told = []
    log = Log(tmp_path / "new" / "log.jsonl", then=told.append)
    _, epochs = train(network(), on_epoch=log, validation=data())
    assert read_log(tmp_path / "new" / "log.jsonl") == told == [Epoch(**epoch) for epoch in epochs]


def test_a_torn_last_line_is_left_out_and_written_over(tmp_path):
    path = tmp_path / "log.jsonl"
    Log(path)(ONE)
    whole = path.read_text()
    for cut in range(len(whole)):
        path.write_text(whole + whole[:cut])
        assert read_log(path) == [ONE]
        Log(path)(TWO)
        assert read_log(path) == [ONE, TWO]


def test_an_epoch_done_again_counts_once_and_nan_is_kept(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path)
    for epoch in (ONE, TWO, replace(TWO, loss=0.7), replace(ONE, number=3, measured={"a": float("nan")})):
        log(epoch)
    one, two, three = read_log(path)
    assert (one, two.loss) == (ONE, 0.7)
    assert isnan(three.measured["a"])
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_damage_in_the_middle_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    Log(path)(ONE)
    path.write_text(path.read_text() + "{broken\n" + path.read_text())
    with pytest.raises(ValueError, match=r"log.jsonl, line 2: not an epoch"):
        read_log(path)


def test_on_a_full_disk_training_goes_on_and_no_line_is_glued_to_a_piece(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    log, seen = Log(path), []
    both = Log(path, seen.append)
    log(ONE)
    real = Path.open

    def room_for_five_letters(path, mode="r", **more):
        if mode != "a":
            return real(path, mode, **more)
        with real(path, "a") as file:
            file.write('{"num')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", room_for_five_letters)
    with pytest.warns(RuntimeWarning, match=r"no line in .*log.jsonl \(No space left on device\). Training goes on"):
        both(replace(ONE, number=2))
    # Said once.
    both(replace(ONE, number=3))
    monkeypatch.undo()
    both(replace(ONE, number=4))
    assert [epoch.number for epoch in seen] == [2, 3, 4]
    assert [epoch.number for epoch in read_log(path)] == [1, 4]


def test_tensorboard_is_asked_for_in_one_line_or_used(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"pip install 'neuronal\[track\]'"):
        Board(tmp_path)
    tensorboard = Mock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", tensorboard)
    Board(tmp_path)(ONE)
    tensorboard.SummaryWriter.assert_called_once_with(str(tmp_path))
    scalars = [
        call.add_scalar(*one) for one in (("loss", 0.1, 4), ("accuracy", 0.5, 4), ("lr", 0.01, 4), ("a", 0.25, 4))
    ]
    assert tensorboard.SummaryWriter().mock_calls == [*scalars, call.flush()]
