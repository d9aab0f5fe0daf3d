"""Where numbers are predicted: everything is judged by RMSE, in the answers' own units, lower is better."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from neuronal.cli import app as cli
from neuronal.data.catalogue import load
from neuronal.experiments.first_look import LEVY
from neuronal.experiments.run import check, run, trained
from neuronal.report.comparison import Comparison
from neuronal.report.page import page
from neuronal.report.render_html import render_html
from neuronal.report.render_terminal import rich_table
from neuronal.report.terminal import comparison_table

QUICK = replace(LEVY, epochs=30, seeds=(0, 1))


@pytest.fixture(scope="module")
def records():
    return [run(replace(QUICK, family=family), seed) for seed in (0, 1) for family in ("standard", "farkas")]


@pytest.mark.parametrize("scaling", ["unit", "standardise", "standardise_inputs"])
def test_rmse_is_in_the_answers_own_units(scaling):
    record, model = trained(replace(QUICK, scaling=scaling, lr=1e-3), 0)
    data = load("levy")
    x, y = (part.numpy().astype(np.float64) for part in (data.train.stored, data.train.answers))
    test = data.test.stored.numpy()
    if scaling != "unit":
        test = (test - x.mean(0)) / x.std(0)
    with torch.no_grad():
        predicted = model.cpu()(torch.from_numpy(test.astype(np.float32)))[:, 0].double().numpy()
    if scaling == "standardise":
        predicted = predicted * y.std() + y.mean()
    expected = np.sqrt(((predicted - data.test.answers.numpy()) ** 2).mean())
    assert record.metrics["rmse"] == pytest.approx(expected, rel=1e-5)
    assert set(record.metrics) == {"loss", "rmse", "parameters"}
    assert set(record.epochs[0]) == {"epoch", "steps", "loss", "lr", "holdout_loss", "holdout_rmse"}


def test_training_learns(records):
    data = load("levy")
    constant = (data.test.answers - data.train.answers.mean()).pow(2).mean().sqrt().item()
    assert all(record.metrics["rmse"] < 0.7 * constant for record in records)


def test_early_stopping_goes_by_the_loss():
    record = run(replace(QUICK, lr=1e-12, stop_after=2, epochs=9), 0)
    assert len(record.epochs) == 3
    assert record.epochs[0]["validation_loss"] == pytest.approx(record.epochs[0]["holdout_loss"], rel=1e-5)


def test_tables_words_and_pages_speak_of_rmse_where_lower_is_better(records, tmp_path):
    comparison = Comparison.from_records(records)
    means = {row.family: row.estimates["rmse"].mean for row in comparison.neurons}
    assert means["farkas"] == pytest.approx(np.mean([records[1].metrics["rmse"], records[3].metrics["rmse"]]))
    best = min(means, key=means.get)
    assert (comparison.measure, comparison.best("rmse").family) == ("rmse", best)
    with (tmp_path / "out").open("w") as file:
        Console(file=file, width=80).print(rich_table(comparison_table(comparison)))
    said = comparison.findings
    assert f"{best}, {means[best]:.4g} ± " in said[0]
    text = render_html(page(comparison))
    for shown in (" ".join(said), (tmp_path / "out").read_text(), text):
        assert "RMSE" in shown
        assert "ccuracy" not in shown


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"probes": ("contrast", "dead_units")}, "no classes, which contrast would need"),
        ({"wrong_labels": 0.1}, "wrong_labels"),
        ({"monitor": "accuracy"}, "monitor accuracy"),
        ({"loss": "cross_entropy"}, "loss 'cross_entropy' does not go with answers that are numbers"),
        ({"flip": True}, "crops, flip and cutout change images, and levy is a table"),
        ({"model": "cnn"}, "cnn reads images, levy is a table. Use fcn or mlp1"),
        ({"data": "digits", "loss": "squared"}, "loss 'squared' does not go with answers that are classes"),
    ],
)
def test_what_makes_no_sense_is_refused_before_training(wrong, message):
    with pytest.raises(ValueError, match=message) as error:
        check(replace(LEVY, **wrong))
    assert "\n" not in str(error.value)


def test_the_commands_take_a_table_of_numbers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(60, 2))
    lines = [f"{a},{b},{100 + 10 * a - 3 * b}" for a, b in rows]
    (tmp_path / "prices.csv").write_text("size,age,price\n" + "\n".join(lines))

    def call(words):
        return cli.main(words.split())

    assert call("compare --data prices.csv --neurons standard,zero_bias --epochs 40 --json") == 0
    answer = json.loads(capsys.readouterr().out)
    rows = answer["comparison"]["rows"]
    assert answer["study"]["recipe"]["scaling"] == "standardise"
    assert all(0 < row["estimates"]["rmse"]["mean"] < 10 for row in rows)
    assert call("train levy --set data=prices.csv --set epochs=3") == 0
    out, err = capsys.readouterr()
    assert out.startswith("RMSE ")
    assert "held out RMSE" in err
    assert call("sweep levy --grid lr=0.1,0.01 --grid seeds=0 --grid epochs=3") == 0
    assert "held-out RMSE" in capsys.readouterr().out
    # Data without classes do not go with a recipe for classes, unless its probes do.
    words = "train digits --set data=prices.csv --set model=mlp1 --set epochs=1"
    assert call(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "contrast and zero_image" in line
    assert call(f"{words} --set probes=dead_units") == 0
