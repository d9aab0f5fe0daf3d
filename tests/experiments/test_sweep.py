from dataclasses import replace

import pytest

from neuronal.core.files import read_sealed, write_sealed
from neuronal.experiments import engine as engine_module
from neuronal.experiments.record import cell_name
from neuronal.experiments.sweep import Study, Watch, costs, finished, prepare, read_study, sweep
from neuronal.train.timing import StepTime


class Listener(Watch):
    def __init__(self):
        self.trained, self.reused, self.aside, self.epochs = [], [], [], 0

    def epoch_ended(self, cell, epoch):
        self.epochs += 1

    def cell_ended(self, record, *, reused):
        (self.reused if reused else self.trained).append((record.recipe.family, record.seed))

    def set_aside(self, file, reason):
        self.aside.append((file, reason))


ALL = [("standard", 0), ("zero_bias", 0), ("standard", 1), ("zero_bias", 1)]


def test_cells_go_seed_by_seed_and_a_second_sweep_trains_nothing(quick_study, tmp_path):
    first, second, fresh = Listener(), Listener(), Listener()
    records = sweep(quick_study, tmp_path, watch=first)
    assert first.trained == ALL
    assert first.epochs == 8
    assert sweep(quick_study, tmp_path, watch=second) == records
    assert (second.trained, second.reused) == ([], ALL)
    sweep(quick_study, tmp_path, fresh=True, watch=fresh)
    assert fresh.trained == ALL
    assert len(list((tmp_path / "cells").iterdir())) == 4
    assert read_study(tmp_path) == quick_study


def test_more_seeds_train_only_the_new_cells(quick_study, tmp_path):
    sweep(Study(replace(quick_study.recipe, seeds=(0,)), ("standard",)), tmp_path)
    listener = Listener()
    sweep(quick_study, tmp_path, watch=listener)
    assert listener.reused == [("standard", 0)]


def test_other_settings_are_other_cells(quick_study, tmp_path):
    study = Study(replace(quick_study.recipe, seeds=(0,)), ("standard",))
    sweep(study, tmp_path)
    listener = Listener()
    sweep(replace(study, recipe=replace(study.recipe, lr=0.02)), tmp_path, watch=listener)
    assert listener.trained == [("standard", 0)]


def test_a_damaged_record_is_set_aside_and_its_cell_redone(quick_study, tmp_path):
    records = sweep(quick_study, tmp_path)
    path = tmp_path / "cells" / cell_name(records[1].recipe, records[1].seed)
    for number in (1, 2):
        path.write_text("{ half a rec")
        listener = Listener()
        again = sweep(quick_study, tmp_path, watch=listener)
        assert listener.trained == [("zero_bias", 0)]
        assert listener.aside[0][0] == path.with_suffix(f".damaged{number}")
        assert "not JSON" in listener.aside[0][1]
        assert path.with_suffix(f".damaged{number}").read_text() == "{ half a rec"
        assert again[1].metrics == records[1].metrics


def test_a_record_of_another_recipe_under_this_name_is_not_believed(quick_study, tmp_path):
    records = sweep(quick_study, tmp_path)
    path = tmp_path / "cells" / cell_name(records[0].recipe, 0)
    values = read_sealed(path)
    values["recipe"]["epochs"] = 3
    write_sealed(path, values)
    listener = Listener()
    assert finished(quick_study.cells()[0], tmp_path, listener) is None
    assert listener.aside == [(path.with_suffix(".damaged1"), "it holds the record of another cell")]
    assert finished(quick_study.cells()[1], tmp_path, Watch()) == records[1]


def test_a_failing_cell_does_not_stop_the_others_and_is_kept(diverging, tmp_path):
    study = Study(diverging, ("standard", "zero_bias"))
    records = sweep(study, tmp_path)
    assert len(records) == 4
    assert all(record.failure for record in records)
    listener = Listener()
    sweep(study, tmp_path, watch=listener)
    assert not listener.trained


def test_stopping_loses_no_finished_cell(quick_study, tmp_path, monkeypatch):
    real, calls = engine_module.trained, []

    def stops_at_the_third(recipe, seed, **options):
        calls.append(seed)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(recipe, seed, **options)

    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "trained", stops_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            sweep(quick_study, tmp_path)
    listener = Listener()
    sweep(quick_study, tmp_path, watch=listener)
    assert listener.reused == ALL[:2]
    assert listener.trained == ALL[2:]


def test_wrong_names_and_places_are_found_before_training(quick_study, tmp_path, monkeypatch):
    monkeypatch.setattr(engine_module, "trained", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(ValueError, match="Unknown neuron"):
        sweep(replace(quick_study, families=("standard", "nothing")), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        sweep(quick_study, tmp_path / "file")


def test_prepare_leaves_nothing_behind(quick_study, tmp_path):
    prepare(quick_study, tmp_path / "a" / "b")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["cells"]


def test_a_study_needs_neurons_each_once(quick):
    with pytest.raises(ValueError, match="at least one neuron"):
        Study(quick, ())
    with pytest.raises(ValueError, match="each neuron once"):
        Study(quick, ("standard", "standard"))


def test_costs_are_measured_once_against_standard_even_if_it_is_not_compared(quick_study, tmp_path):
    study = replace(quick_study, families=("zero_bias",))
    first = costs(study, tmp_path)
    assert costs(study, tmp_path) == first
    assert first.of(study.recipe).ratio == 1
    assert first.of(study.variants()[0]).ratio > 0
    assert first.of(replace(study.recipe, lr=7)) is None
    (tmp_path / "costs.json").write_text("{ half")
    assert costs(study, tmp_path).of(study.variants()[0])
    write_sealed(tmp_path / "costs.json", replace(first, environment={"another": "machine"}).to_json())
    assert costs(study, tmp_path).environment == first.environment
    assert costs(study, tmp_path, fresh=True) != costs(study, tmp_path, fresh=True)


def test_costs_time_the_network_of_each_neuron(quick_study, tmp_path, monkeypatch):
    from neuronal.experiments import cost

    timed = {}

    def look(models, baseline, batch):
        timed.update({key: type(model.head).__name__ for key, model in models.items()})
        return {key: StepTime(1, 1, 1, 1) for key in models}

    monkeypatch.setattr(cost, "step_times", look)
    costs(quick_study, tmp_path)
    standard, zero_bias = (timed[variant.fingerprint()] for variant in quick_study.variants())
    assert (standard, zero_bias) == ("Linear", "ZeroBiasLinear")


def test_a_folder_without_a_sound_study_is_named(tmp_path):
    with pytest.raises(ValueError, match="is not the folder of a run: it has no study"):
        read_study(tmp_path)
    for text in ("{", '{"sha256": "", "values": {}}'):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(ValueError, match=r"study\.json is damaged: "):
            read_study(tmp_path)
    write_sealed(tmp_path / "study.json", {})
    with pytest.raises(ValueError, match=r"study\.json is damaged: "):
        read_study(tmp_path)
