"""Cells that are stopped in the middle go on from there, and come out as if they had not been."""

import errno
from dataclasses import replace
from importlib import import_module
from unittest.mock import Mock

import pytest

from neuronal.data.catalogue import load
from neuronal.experiments import trial as trial_module
from neuronal.experiments.cells import Listed
from neuronal.experiments.environment import arithmetic
from neuronal.experiments.record import cell_name, read
from neuronal.experiments.sweep import sweep
from neuronal.experiments.trial import lock, train_into, unfinished
from neuronal.experiments.work import Work
from neuronal.train import checkpoint, snapshot
from tests.damage import no_space
from tests.experiments.listener import Listener, numbers

# The name in the package is that of the function.
run_module = import_module("neuronal.experiments.run")


@pytest.fixture
def recipe(quick):
    return replace(quick, epochs=4, seeds=(0,), probes=())


@pytest.fixture(autouse=True)
def every_step(monkeypatch):
    monkeypatch.setattr(trial_module, "EVERY", 1)


def stopped(folder, recipe, after=2):
    def stop(epoch):
        if epoch.number == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_into(folder, recipe, 0, stop)
    return unfinished(folder, recipe, 0)


def gone_on(folder, recipe):
    """Its record, network, and the epochs that were trained now."""
    epochs = []
    record, model = train_into(folder, recipe, 0, lambda epoch: epochs.append(epoch.number))
    assert not unfinished(folder, recipe, 0).exists()
    return record, model, epochs


def test_a_stopped_cell_goes_on_and_ends_the_same(recipe, tmp_path):
    expected, network = train_into(tmp_path / "whole", recipe, 0)
    kept = stopped(tmp_path, recipe)
    assert len(list(kept.glob("*/step-*.safetensors"))) == 1
    assert not (tmp_path / cell_name(recipe, 0)).exists()
    record, model, epochs = gone_on(tmp_path, recipe)
    # Kept was the state after the last step of the second.
    assert epochs == [2, 3, 4]
    assert numbers(record) == numbers(expected) == numbers(read(tmp_path / cell_name(recipe, 0)))
    own = network.state_dict()
    assert all(value.equal(own[name]) for name, value in model.state_dict().items())
    # Its seconds are those of the whole training.
    assert record.seconds >= record.step_seconds * record.epochs[0]["steps"]


def test_a_cell_that_breaks_down_later_keeps_its_epochs_of_before(recipe, tmp_path):
    # Every step multiplies the weights by -1.4.
    late = replace(recipe, optim="sgd", lr=0.1, momentum=0.0, weight_decay=24.0, epochs=20)
    expected, _ = train_into(tmp_path / "whole", late, 0)
    assert expected.failure
    assert len(expected.epochs) > 2
    stopped(tmp_path, late)
    assert numbers(gone_on(tmp_path, late)[0]) == numbers(expected)


def test_a_short_cell_leaves_nothing_but_its_record(recipe, tmp_path, monkeypatch):
    monkeypatch.undo()
    train_into(tmp_path, recipe, 0)
    assert [path.name for path in tmp_path.glob("[!.]*")] == [cell_name(recipe, 0)]
    assert not unfinished(tmp_path, recipe, 0).exists()


def other_images(name):
    data = load(name)
    return replace(data, train=data.test)


def others_held_out(name):
    """The images that recipe and seed hold out are black."""
    data = load(name)
    held, stored = data.train.held_out(0.1, 0)[1], data.train.stored.clone()
    stored[(stored.flatten(1)[:, None] == held.stored.flatten(1)).all(2).any(1)] = 0
    return replace(data, train=replace(data.train, stored=stored))


OTHERS = {
    "images": (run_module, "load", other_images),
    "images held out": (run_module, "load", others_held_out),
    "machine": (trial_module, "arithmetic", lambda: {**arithmetic(), "gpu": "another"}),
    "version": (checkpoint, "_FORMAT", 0),
}


@pytest.mark.parametrize(("module", "name", "value"), OTHERS.values(), ids=OTHERS)
def test_what_was_kept_with_others_is_not_gone_on_from(recipe, tmp_path, monkeypatch, module, name, value):
    expected, _ = train_into(tmp_path / "whole", recipe, 0)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, value)
        assert stopped(tmp_path, recipe).exists()
    record, _, epochs = gone_on(tmp_path, recipe)
    assert epochs == [1, 2, 3, 4]
    assert numbers(record) == numbers(expected)


def test_what_another_process_removes_meanwhile_stops_nobody(recipe, tmp_path, monkeypatch):
    """Two sweeps of one folder: a state is listed, gone when it is opened; or read, and gone afterwards."""
    real = checkpoint._files
    stopped(tmp_path, recipe)
    monkeypatch.setattr(checkpoint, "_files", lambda folder: [*real(folder), folder / "step-999999999.safetensors"])
    monkeypatch.setattr(snapshot, "read", lambda path: pytest.fail("read again"))
    assert gone_on(tmp_path, recipe)[2][0] == 2


def test_a_probe_that_has_to_see_every_step_does(recipe, tmp_path):
    watched = replace(recipe, probes=("hinge_motion",))
    assert not stopped(tmp_path, watched).exists()
    assert gone_on(tmp_path, watched)[2] == [1, 2, 3, 4]


def test_fresh_begins_again(recipe, tmp_path):
    stopped(tmp_path / "cells", recipe)
    listener = Listener()
    sweep(Listed("one", (recipe,)), tmp_path, fresh=True, watch=listener)
    assert listener.epochs == [1, 2, 3, 4]


def test_a_sweep_goes_on(recipe, tmp_path):
    expected, _ = train_into(tmp_path / "whole", recipe, 0)
    kept, listener = stopped(tmp_path / "cells", recipe), Listener()
    (record,) = sweep(Listed("one", (recipe,)), tmp_path, watch=listener)
    assert listener.epochs == [2, 3, 4]
    assert numbers(record) == numbers(expected)
    assert not kept.exists()


def test_an_attempt_that_is_not_alone_for_sure_leaves_the_others_their_folders(recipe, tmp_path):
    """Two at once, where there are no locks: both train all of it, to the same record."""
    expected, _ = train_into(tmp_path / "whole", recipe, 0)
    kept, epochs = stopped(tmp_path, recipe), []
    record, _ = train_into(tmp_path, recipe, 0, lambda epoch: epochs.append(epoch.number), take_over=False)
    assert epochs == [1, 2, 3, 4]
    assert numbers(record) == numbers(expected)
    assert len(list(kept.glob("*/step-*.safetensors"))) == 1


def test_where_there_are_no_locks_trials_are_trained_all_the_same(recipe, tmp_path, monkeypatch):
    expected, _ = train_into(tmp_path / "whole", recipe, 0)
    monkeypatch.setattr(trial_module.FileLock, "acquire", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    with lock(tmp_path / "a.json") as is_alone:
        assert is_alone is None
    (record,) = sweep(Listed("one", (recipe,)), tmp_path)
    assert numbers(record) == numbers(expected)


def test_a_network_whose_weights_found_no_place_is_not_trained_all_over_again(recipe, tmp_path, monkeypatch):
    stopped(tmp_path / "cells", recipe)
    with monkeypatch.context() as patch:
        patch.setattr("neuronal.experiments.work.save_model", no_space)
        with pytest.raises(OSError, match="No space"):
            Work(tmp_path).network(recipe, 0)
    real, kept = trial_module.trained, []

    def noted(*given, checkpoints=None, **options):
        kept.extend(checkpoints.folder.glob("step-*"))
        return real(*given, checkpoints=checkpoints, **options)

    monkeypatch.setattr(trial_module, "trained", noted)
    Work(tmp_path).network(recipe, 0)
    assert len(kept) == 1
    assert not unfinished(tmp_path / "cells", recipe, 0).exists()
