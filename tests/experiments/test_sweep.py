"""Sweeps: what is finished is not trained again, what is damaged is, and what cannot work is said first."""

from dataclasses import replace

import pytest

from neuronal.core.files import read_sealed, write_sealed
from neuronal.core.records import to_json
from neuronal.experiments import cost, trial
from neuronal.experiments.record import cell_name
from neuronal.experiments.sweep import Study, Watch, costs, finished, prepare, read_study, sweep
from neuronal.train.timing import StepTime
from tests.experiments.listener import Listener

ALL = [("standard", 0), ("zero_bias", 0), ("standard", 1), ("zero_bias", 1)]


def listened(study, folder, **options):
    listener = Listener()
    return sweep(study, folder, watch=listener, **options), listener


def test_cells_go_seed_by_seed_and_what_is_there_is_not_trained_again(quick_study, tmp_path):
    one = Study(replace(quick_study.recipe, seeds=(0,)), ("standard",))
    sweep(one, tmp_path)
    records, first = listened(quick_study, tmp_path)
    assert (first.trained, first.reused) == (ALL[1:], ALL[:1])
    assert len(first.epochs) == 6
    again, second = listened(quick_study, tmp_path)
    assert again == records
    assert (second.trained, second.reused) == ([], ALL)
    assert listened(quick_study, tmp_path, fresh=True)[1].trained == ALL
    assert len(list((tmp_path / "cells").glob("[!.]*"))) == 4
    assert read_study(tmp_path) == quick_study
    # Other settings are other cells.
    assert listened(replace(one, recipe=replace(one.recipe, lr=0.02)), tmp_path)[1].trained == ALL[:1]


def test_a_damaged_record_is_set_aside_and_its_cell_redone(quick_study, tmp_path):
    records = sweep(quick_study, tmp_path)
    path = tmp_path / "cells" / cell_name(records[1].recipe, records[1].seed)
    for number in (1, 2):
        path.write_text("{ half a rec")
        again, listener = listened(quick_study, tmp_path)
        assert listener.trained == [("zero_bias", 0)]
        ((aside, reason),) = listener.aside
        assert aside == path.with_suffix(f".damaged{number}")
        assert "not JSON" in reason
        assert aside.read_text() == "{ half a rec"
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
    assert not listened(study, tmp_path)[1].trained


def test_wrong_names_and_places_are_found_before_training(quick_study, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "trained", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(ValueError, match="Unknown neuron"):
        sweep(replace(quick_study, families=("standard", "nothing")), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        sweep(quick_study, tmp_path / "file")
    prepare(quick_study, tmp_path / "a" / "b")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["cells"]


@pytest.mark.parametrize(("families", "message"), [((), "at least one"), (("standard",) * 2, "each neuron once")])
def test_a_study_needs_neurons_each_once(quick, families, message):
    with pytest.raises(ValueError, match=message):
        Study(quick, families)


def test_costs_are_measured_once_against_standard_even_if_it_is_not_compared(quick_study, tmp_path):
    study = replace(quick_study, families=("zero_bias",))
    first = costs(study, tmp_path)
    assert costs(study, tmp_path) == first
    assert first.of(study.recipe).ratio == 1
    assert first.of(study.variants()[0]).ratio > 0
    assert first.of(replace(study.recipe, lr=7)) is None
    (tmp_path / "costs.json").write_text("{ half")
    assert costs(study, tmp_path).of(study.variants()[0])
    write_sealed(tmp_path / "costs.json", to_json(replace(first, environment={"another": "machine"})))
    assert costs(study, tmp_path).environment == first.environment
    assert costs(study, tmp_path, fresh=True) != costs(study, tmp_path, fresh=True)


def test_costs_time_the_network_of_each_neuron(quick_study, tmp_path, monkeypatch):
    timed = {}

    def look(models, baseline, batch):
        timed.update({key: type(model.head).__name__ for key, model in models.items()})
        return {key: StepTime(1, 1, 1, 1) for key in models}

    monkeypatch.setattr(cost, "step_times", look)
    costs(quick_study, tmp_path)
    assert [timed[variant.fingerprint()] for variant in quick_study.variants()] == ["Linear", "ZeroBiasLinear"]


def test_a_folder_without_a_sound_study_is_named(tmp_path):
    with pytest.raises(ValueError, match="is not the folder of a run"):
        read_study(tmp_path)
    write_sealed(tmp_path / "study.json", {})
    for text in ("{", '{"sha256": "", "values": {}}', (tmp_path / "study.json").read_text()):
        (tmp_path / "study.json").write_text(text)
        with pytest.raises(ValueError, match=r"study\.json is damaged"):
            read_study(tmp_path)
