"""Cells that are stopped in the middle go on from there, and come out as if they had not been."""

from dataclasses import replace

import pytest

from neuronal.experiments import engine as engine_module
from neuronal.experiments.cells import Listed
from neuronal.experiments.claim import Claimed
from neuronal.experiments.engine import InTurn, Processes, trained_into, unfinished
from neuronal.experiments.environment import arithmetic
from neuronal.experiments.record import cell_name, read
from neuronal.experiments.sweep import Watch, sweep
from neuronal.experiments.work import Work


@pytest.fixture
def recipe(quick):
    return replace(quick, epochs=4, seeds=(0,), probes=())


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(engine_module, "EVERY", 1)


class Stops:
    """Notes the epochs it is told of, and ends one's patience after some."""

    def __init__(self, after=99):
        self.after, self.epochs = after, []

    def __call__(self, epoch):
        self.epochs.append(epoch.number)
        if epoch.number == self.after:
            raise KeyboardInterrupt


def numbers(record):
    """What does not depend on when and how it was trained."""
    return record.recipe, record.seed, record.metrics, record.epochs, record.probes, record.data


def stopped(folder, recipe, after=2):
    with pytest.raises(KeyboardInterrupt):
        trained_into(folder, recipe, 0, Stops(after))
    return unfinished(folder, recipe, 0)


@pytest.mark.usefixtures("every_step")
def test_a_stopped_cell_goes_on_and_ends_the_same(recipe, tmp_path):
    expected, network = trained_into(tmp_path / "whole", recipe, 0)
    kept = stopped(tmp_path, recipe)
    assert len(list(kept.glob("step-*.safetensors"))) == 1
    assert not (tmp_path / cell_name(recipe, 0)).exists()
    watch = Stops()
    record, model = trained_into(tmp_path, recipe, 0, watch)
    # Kept was the state after the last step of the second.
    assert watch.epochs == [2, 3, 4]
    assert numbers(record) == numbers(expected) == numbers(read(tmp_path / cell_name(recipe, 0)))
    own = network.state_dict()
    assert all(value.equal(own[name]) for name, value in model.state_dict().items())
    assert not kept.exists()


@pytest.mark.usefixtures("every_step")
def test_its_seconds_are_those_of_the_whole_training(recipe, tmp_path):
    stopped(tmp_path, recipe, after=3)
    record, _ = trained_into(tmp_path, recipe, 0)
    steps = [row["steps"] for row in record.epochs]
    assert record.seconds >= record.step_seconds * steps[1]


@pytest.mark.usefixtures("every_step")
def test_a_cell_that_breaks_down_later_keeps_its_epochs_of_before(recipe, tmp_path):
    # Every step multiplies the weights by -1.4.
    late = replace(recipe, optim="sgd", lr=0.1, momentum=0.0, weight_decay=24.0, epochs=20)
    expected, _ = trained_into(tmp_path / "whole", late, 0)
    assert expected.failure
    assert len(expected.epochs) > 2
    kept = stopped(tmp_path, late)
    record, _ = trained_into(tmp_path, late, 0)
    assert (numbers(record), record.failure) == (numbers(expected), expected.failure)
    assert not kept.exists()


def test_a_short_cell_leaves_nothing_but_its_record(recipe, tmp_path):
    trained_into(tmp_path, recipe, 0)
    assert [path.name for path in tmp_path.iterdir()] == [cell_name(recipe, 0)]


@pytest.mark.usefixtures("every_step")
def test_what_was_kept_of_other_data_is_not_gone_on_from(recipe, tmp_path, monkeypatch):
    from neuronal.experiments import run as run_module

    expected, _ = trained_into(tmp_path / "whole", recipe, 0)
    real = run_module.load
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "load", lambda name: replace((data := real(name)), train=data.test))
        kept = stopped(tmp_path, recipe)
    assert kept.exists()
    watch = Stops()
    record, _ = trained_into(tmp_path, recipe, 0, watch)
    assert watch.epochs == [1, 2, 3, 4]
    assert numbers(record) == numbers(expected)
    assert not kept.exists()


@pytest.mark.usefixtures("every_step")
def test_epochs_are_not_followed_on_two_holdouts(recipe, tmp_path, monkeypatch):
    from neuronal.experiments import run as run_module

    def others_held_out(name):
        data = real(name)
        held = data.train.held_out(recipe.holdout, 0)[1].stored.flatten(1)
        stored = data.train.stored.clone()
        stored[(stored.flatten(1)[:, None] == held).all(2).any(1)] = 0
        return replace(data, train=replace(data.train, stored=stored))

    real = run_module.load
    expected, _ = trained_into(tmp_path / "whole", recipe, 0)
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "load", others_held_out)
        stopped(tmp_path, recipe)
    record, _ = trained_into(tmp_path, recipe, 0)
    assert numbers(record) == numbers(expected)


@pytest.mark.usefixtures("every_step")
def test_what_another_machine_kept_is_not_gone_on_from(recipe, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "arithmetic", lambda: {**arithmetic(), "gpu": "another"})
        stopped(tmp_path, recipe)
    watch = Stops()
    trained_into(tmp_path, recipe, 0, watch)
    assert watch.epochs == [1, 2, 3, 4]


@pytest.mark.usefixtures("every_step")
def test_what_another_version_kept_stops_nobody(recipe, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("neuronal.train.checkpoint._FORMAT", 0)
        kept = stopped(tmp_path, recipe)
    watch = Stops()
    trained_into(tmp_path, recipe, 0, watch)
    assert watch.epochs == [1, 2, 3, 4]
    assert not kept.exists()


@pytest.mark.usefixtures("every_step")
def test_what_another_process_removes_meanwhile_stops_nobody(recipe, tmp_path, monkeypatch):
    """Two sweeps of one folder: a state is listed, gone when it is opened; or read, and gone afterwards."""
    from neuronal.train import checkpoint, snapshot

    real = checkpoint._files
    stopped(tmp_path, recipe)
    monkeypatch.setattr(checkpoint, "_files", lambda folder: [*real(folder), folder / "step-999999999.safetensors"])
    monkeypatch.setattr(snapshot, "read", lambda path: pytest.fail("read again"))
    watch = Stops()
    trained_into(tmp_path, recipe, 0, watch)
    assert watch.epochs[0] == 2


@pytest.mark.usefixtures("every_step")
def test_a_probe_that_has_to_see_every_step_does(recipe, tmp_path):
    watched = replace(recipe, probes=("hinge_motion",))
    kept = stopped(tmp_path, watched)
    assert not kept.exists()
    watch = Stops()
    trained_into(tmp_path, watched, 0, watch)
    assert watch.epochs == [1, 2, 3, 4]


@pytest.mark.usefixtures("every_step")
def test_fresh_begins_again(recipe, tmp_path):
    kept = stopped(tmp_path / "cells", recipe)
    seen = []

    class Engine(InTurn):
        def train(self, cells, folder, started, on_epoch):
            seen.append(kept.exists())
            return super().train(cells, folder, started, on_epoch)

    sweep(Listed("one", (recipe,)), tmp_path, fresh=True, engine=Engine())
    assert seen == [False]


@pytest.mark.usefixtures("every_step")
@pytest.mark.parametrize(
    "engine", [InTurn(), Claimed(), Processes(workers=1)], ids=lambda engine: type(engine).__name__
)
def test_every_engine_goes_on(recipe, tmp_path, engine):
    expected, _ = trained_into(tmp_path / "whole", recipe, 0)
    kept = stopped(tmp_path / "cells", recipe)
    told = []

    class Listener(Watch):
        def epoch_ended(self, cell, epoch):
            told.append(epoch.number)

    (record,) = sweep(Listed("one", (recipe,)), tmp_path, engine=engine, watch=Listener())
    assert told == [2, 3, 4]
    assert numbers(record) == numbers(expected)
    assert not kept.exists()


@pytest.mark.usefixtures("every_step")
def test_networks_of_reproductions_go_on(recipe, tmp_path, monkeypatch):
    stopped(tmp_path / "cells", recipe)
    real, kept = engine_module.trained, []

    def noted(*given, checkpoints=None, **options):
        kept.append(list(checkpoints.folder.iterdir()))
        return real(*given, checkpoints=checkpoints, **options)

    monkeypatch.setattr(engine_module, "trained", noted)
    Work(tmp_path).network(recipe, 0)
    assert len(kept[0]) == 1


@pytest.mark.usefixtures("every_step")
def test_a_network_whose_weights_found_no_place_is_not_trained_all_over_again(recipe, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("neuronal.experiments.work.save_model", full)
        with pytest.raises(OSError, match="No space"):
            Work(tmp_path).network(recipe, 0)
    assert list(unfinished(tmp_path / "cells", recipe, 0).glob("step-*"))
    Work(tmp_path).network(recipe, 0)
    assert not unfinished(tmp_path / "cells", recipe, 0).exists()
