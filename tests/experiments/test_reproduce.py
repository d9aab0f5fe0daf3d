"""Reproductions: every one runs at its smallest scale, keeps what it trained, and says what it is from."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from shutil import copy

import pytest
import torch
from torch import nn

from neuronal.cli.app import main
from neuronal.experiments.procedures import PROCEDURES
from neuronal.experiments.procedures.zero_bias.contrast_table import findings
from neuronal.experiments.procedures.zero_bias.interpolation import pairs_of_equal_pattern
from neuronal.experiments.reproduce import read_result, reproduce
from neuronal.experiments.reproduction import SCALES, Reproduction, Setting
from neuronal.experiments.run import trained
from neuronal.experiments.work import Work
from neuronal.recipes import PAPERS, REPRODUCTIONS
from neuronal.recipes.zero_bias.networks import MNIST_FCN, smoke
from neuronal.recipes.zero_bias.table1 import TABLE1_MNIST_FCN
from neuronal.report.findings import findings_page
from neuronal.report.papers import drawings, sentences, tables
from neuronal.report.reproduction_page import read_results, results_page
from tests.conftest import ROOT
from tests.vision import vision


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_one_runs_at_smoke(name, tmp_path):
    file = reproduce(REPRODUCTIONS[name], "smoke", runs=tmp_path / "runs", results=tmp_path / "results")
    answer = read_result(file)
    assert answer["reproduction"] == name
    assert answer["environment"]["torch"]
    assert answer["command"] == f"neuronal reproduce {name} --scale smoke"
    assert PROCEDURES[answer["procedure"]].findings(answer)
    assert tables(answer)
    assert sentences(answer)
    page = results_page("all", read_results(file.parent))
    assert page.count("<svg") == len(drawings(answer)) > 0 or answer["procedure"] in ("regions", "cutoff")
    assert file == tmp_path / "results" / f"{name}.smoke.json"


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_every_one_has_the_papers_own_setting(name):
    one = REPRODUCTIONS[name]
    # ImageNet is out of reach of what is called small, and the same networks on CIFAR-10 say what CIFAR-100 would.
    out_of_reach = "imagenet" in name or name.endswith("cifar100")
    assert set(one.scales) == set(SCALES) - ({"small"} if out_of_reach else set())
    for setting in one.scales.values():
        names = [(recipe.name, recipe.family) for recipe in setting.recipes]
        assert len(set(names)) == len(names)


def test_what_is_trained_is_kept(tmp_path, monkeypatch):
    first = reproduce(TABLE1_MNIST_FCN, "smoke", runs=tmp_path / "runs", results=tmp_path / "a")
    monkeypatch.setattr("neuronal.experiments.engine.trained", None)
    second = reproduce(TABLE1_MNIST_FCN, "smoke", runs=tmp_path / "runs", results=tmp_path / "b")
    assert read_result(first)["result"] == read_result(second)["result"]


def test_what_one_trained_is_there_for_the_others_under_their_own_names(tmp_path, monkeypatch):
    one = smoke(MNIST_FCN)
    other = replace(one, name="the same by another name", seeds=(0, 1))
    Work(tmp_path).records([one])
    seeds = []

    def counted(recipe, seed, **options):
        seeds.append(seed)
        return trained(recipe, seed, **options)

    monkeypatch.setattr("neuronal.experiments.engine.trained", counted)
    records = Work(tmp_path).records([other])
    assert seeds == [1]
    assert {record.recipe.name for record in records} == {other.name}
    assert not sharing_is_missed("zero_bias/table1_cifar_resnet18", "zero_bias/fixup_vs_nf", 1)
    assert not sharing_is_missed("zero_bias/table1_cifar_resnet18", "zero_bias/training_curves", 2)
    assert not sharing_is_missed("zero_bias/table1_fashion_cnn", "zero_bias/augmented", 2)


def sharing_is_missed(one, other, expected):
    """Whether two reproductions have less than so many trainings in common, at the scale our results are from."""
    prints = [{r.fingerprint() for r in REPRODUCTIONS[name].scales["small"].recipes} for name in (one, other)]
    return len(prints[0] & prints[1]) < expected


def test_networks_are_kept_with_their_weights(tmp_path):
    recipe = smoke(MNIST_FCN)
    said = []
    record, model = Work(tmp_path, say=said.append).network(recipe, 0)
    again, same = Work(tmp_path, say=said.append).network(recipe, 0)
    assert len(said) == 1
    assert again.metrics == record.metrics
    for p, q in zip(model.state_dict().values(), same.state_dict().values(), strict=True):
        assert p.cpu().equal(q)
    weights = next(tmp_path.glob("cells/*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:100])
    Work(tmp_path, say=said.append).network(recipe, 0)
    assert "trained again" in said[1]


def test_other_seeds_can_be_asked_for(tmp_path):
    file = reproduce(TABLE1_MNIST_FCN, "smoke", runs=tmp_path, results=tmp_path, seeds=(3, 4))
    assert read_result(file)["result"]["rows"][0]["seeds"] == [3, 4]
    rays = REPRODUCTIONS["zero_bias/expressiveness"]
    answer = read_result(reproduce(rays, "smoke", runs=tmp_path, results=tmp_path, seeds=(5,)))
    assert {row["seed"] for row in answer["result"]["rows"]} == {5}
    assert answer["options"]["seeds"] == [5]
    with pytest.raises(ValueError, match="trains nothing and takes no seeds, got 5"):
        reproduce(REPRODUCTIONS["zero_bias/zero_image"], "paper", runs=tmp_path, results=tmp_path, seeds=(5,))


def test_pairs_of_equal_pattern_are_drawn_from_all():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[2].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    # One pattern and two classes in the first quadrant; the last two are the same image.
    x = torch.tensor([[2.0, 1.0], [3.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 4.0], [-1.0, -1.0], [1.0, 4.0]])
    predicted = model(x).argmax(1)

    def drawn(count, seed=0):
        return pairs_of_equal_pattern(model, x, predicted, count, torch.Generator().manual_seed(seed))

    assert sorted(drawn(100)) == [(0, 1), (2, 3), (2, 4), (2, 6), (3, 4), (3, 6)]
    assert drawn(0) == []
    assert len({pair for seed in range(20) for pair in drawn(1, seed)}) > 2


def test_models_by_name_at_the_zero_image(tmp_path, capsys, monkeypatch):
    vision()
    monkeypatch.chdir(tmp_path)
    names = ["timm:resnet18", "torchvision:squeezenet1_1"]
    words = [word for name in names for word in ("--model", name)]
    assert main(["reproduce", "zero_bias/zero_image", "--scale", "smoke", *words]) == 0
    capsys.readouterr()
    answer = read_result(tmp_path / "results" / "zero_bias" / "zero_image.smoke.json")
    assert answer["command"].endswith(" --scale smoke --model timm:resnet18 --model torchvision:squeezenet1_1")
    rows = {row["name"]: row for row in answer["result"]["rows"]}
    for name in names:
        assert rows[name]["classes"] == 1000
    # The last layer's bias is all that is left of an untrained one at zero, and it is nearly uniform.
    assert rows["timm:resnet18"]["entropy"] > 0.99
    assert main(["reproduce", "zero_bias/table1_mnist_fcn", "--scale", "smoke", "--model", "timm:resnet18"]) == 2
    assert "takes no model, got timm:resnet18" in capsys.readouterr().err
    assert main(["reproduce", "zero_bias/zero_image", "--scale", "smoke", "--pretrained"]) == 2
    assert "--pretrained is about models named with --model" in capsys.readouterr().err


def test_published_weights_are_asked_for_in_each_librarys_words(tmp_path, monkeypatch):
    asked = {}

    def made(source, **arguments):
        asked[source] = arguments
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 2))

    monkeypatch.setattr("neuronal.experiments.procedures.zero_bias.zero_image.from_source", made)
    one, names = REPRODUCTIONS["zero_bias/zero_image"], ["timm:a", "torchvision:b", "c.safetensors"]
    reproduce(one, "smoke", runs=tmp_path, results=tmp_path, models=names, pretrained=True)
    assert asked == {"timm:a": {"pretrained": True}, "torchvision:b": {"weights": "DEFAULT"}, "c.safetensors": {}}
    asked.clear()
    reproduce(one, "smoke", runs=tmp_path, results=tmp_path, models=names)
    assert asked == {name: {} for name in names}


def test_a_wrong_model_is_found_before_anything_is_trained(tmp_path):
    with pytest.raises(ValueError, match="Unknown model 'resnet81'"):
        reproduce(REPRODUCTIONS["zero_bias/zero_image"], "smoke", runs=tmp_path, results=tmp_path, models=["resnet81"])
    assert not list(tmp_path.rglob("*.json"))


def answer_with(zero, standard, reported=None):
    """A result of Table 1 with these curves, one per seed."""

    def row(neuron, curves):
        columns = list(zip(*curves, strict=True))
        estimates = [{"mean": sum(c) / len(c), "standard_error": 0.001, "num_seeds": len(c)} for c in columns]
        return {
            "name": "net",
            "neuron": neuron,
            "seeds": list(range(len(curves))),
            "failed": {},
            "multipliers": [1.0, 0.1],
            "accuracy": curves,
            "estimates": estimates,
        }

    rows = [row("zero_bias", zero), row("standard", standard)]
    return {"result": {"rows": rows}, "reported": reported or {}, "procedure": "contrast_table", "scale": "small"}


def test_verdicts_follow_the_numbers():
    good = findings(answer_with([[0.9, 0.9], [0.88, 0.88]], [[0.9, 0.1], [0.9, 0.2]]))
    assert [one.verdict for one in good] == ["reproduced", "reproduced", "reproduced in part"]
    bad = findings(answer_with([[0.9, 0.8], [0.88, 0.88]], [[0.8, 0.79], [0.8, 0.2]]))
    assert [one.verdict for one in bad] == ["not reproduced", "not reproduced", "not reproduced"]
    # Accuracy that rises as contrast falls does not fall.
    assert findings(answer_with([[0.9, 0.9]], [[0.2, 0.9]]))[1].verdict == "not reproduced"


def test_accuracies_with_and_without_biases_are_compared_seed_by_seed():
    def similar(zero, standard):
        return findings(answer_with([[z, z] for z in zero], [[s, 0.1] for s in standard]))[2]

    near = similar((0.9, 0.91, 0.92), (0.901, 0.9105, 0.9205))
    assert near.verdict == "reproduced"
    assert near.numbers == "without biases -0.07 points, 95% interval -0.14 to +0.01 (3 seeds)"
    assert similar((0.9, 0.9, 0.9), (0.95, 0.91, 0.84)).verdict == "reproduced in part"
    assert similar((0.9, 0.91, 0.92), (0.95, 0.96, 0.975)).verdict == "not reproduced"


def test_the_rest_of_a_row_and_its_variance_are_compared():
    reported = {"standard": {"mean": 0.9, "curve": [0.9, 0.12]}}
    rest, spread = (
        findings(answer_with([[0.9, 0.9]], [[0.9, low] for low in lows], reported))[3:] for lows in ([0.12], [0.1, 0.3])
    )
    assert [one.verdict for one in rest] == ["reproduced", "reproduced in part"]
    assert [one.verdict for one in spread] == ["not reproduced", "reproduced in part", "not reproduced"]
    assert (
        "0 of 1 agree, with standard errors up to 0.1; furthest at 0.1, 20.0% ± 0.1 where 12.0% is reported (2 seeds)"
        in spread[0].numbers
    )
    assert "largest 200.00 squared points, of net at contrast 0.1; 1 of 2 are below" in spread[2].numbers


def test_ways_without_biases_are_told_apart_only_by_their_intervals():
    def verdict(first, second):
        answer = answer_with([[a, a] for a in first], [[a, a] for a in second])
        answer["result"]["rows"][1] |= {"name": "other", "neuron": "zero_bias"}
        return findings(answer)[-1].verdict

    assert verdict((0.8, 0.81, 0.82), (0.85, 0.861, 0.87)) == "shown"
    assert verdict((0.82, 0.77, 0.82), (0.86, 0.87, 0.86)) == "not shown"


@pytest.mark.parametrize(
    ("paper", "verdict"), [(0.9, "reproduced"), (0.885, "reproduced in part"), (0.5, "not reproduced")]
)
def test_reported_accuracies_are_compared(paper, verdict):
    answer = answer_with([[0.9, 0.9]], [[0.9, 0.1]], {"zero_bias": {"mean": paper}})
    assert findings(answer)[1].verdict == verdict


def test_augmented_networks_are_judged_against_zero_bias_ones():
    def verdicts(dark, middle):
        answer = answer_with([[0.9, 0.9, 0.9]], [[0.9, middle, dark]])
        for row in answer["result"]["rows"]:
            row["multipliers"] = [1.0, 0.1, 0.001]
        answer["result"]["rows"][1]["augmented"] = True
        return [one.verdict for one in findings(answer)]

    assert verdicts(0.1, 0.89) == ["reproduced", "reproduced", "reproduced in part"]
    assert verdicts(0.89, 0.8) == ["not reproduced", "not reproduced", "reproduced in part"]


def test_wrong_names_and_scales_in_one_line(tmp_path, capsys):
    assert main(["reproduce", "zero_bias/none"]) == 2
    assert main(["reproduce", "zero_bias/table1_mnist_fcn", "--scale", "huge"]) == 2
    assert main(["reproduce"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 3
    assert "Unknown reproduction" in lines[0]
    assert "There are: paper, small, smoke" in lines[1]
    assert "--list" in lines[2]
    with pytest.raises(ValueError, match="paper/name"):
        replace(TABLE1_MNIST_FCN, name="table1")
    with pytest.raises(ValueError, match="scales are"):
        Reproduction("a/b", "", "", "contrast_table", {"big": Setting()})


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").write_text("")
    assert main(["reproduce", "zero_bias/expressiveness", "--scale", "smoke"]) == 1
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "cannot use results" in line
    assert "--results" in line


def test_a_foreign_file_is_no_result(tmp_path):
    file = tmp_path / "x.json"
    file.write_text("[1]")
    with pytest.raises(ValueError, match="not a result"):
        read_result(file)


def test_wide_networks_are_near_their_limit(tmp_path):
    """At width 512 within a third: inputs and weights drawn from one stream were five times as far."""
    one = REPRODUCTIONS["zero_bias/ntk"]
    options = {**one.scales["smoke"].options, "data": ("normal",), "widths": (16, 512), "inputs": 10, "seeds": (0, 1)}
    small = replace(one, scales={"small": Setting(options=options)})
    answer = read_result(reproduce(small, "small", runs=tmp_path, results=tmp_path))
    for row in answer["result"]["approach"]:
        assert row["to_own_limit"]["mean"] < (0.33 if row["width"] == 512 else 2)
    assert [one.verdict for one in PROCEDURES["ntk"].findings(answer)] == [
        "reproduced",
        "not true as stated",
        "reproduced",
    ]


def test_a_folder_of_results_has_a_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", "results/none"]) == 2
    assert "is not the folder of a run" in capsys.readouterr().err
    for name in ("zero_bias/expressiveness", "zero_bias/table1_mnist_fcn"):
        reproduce(REPRODUCTIONS[name], "smoke", runs=tmp_path / "runs", results=tmp_path / "results")
    assert main(["report", "results/zero_bias"]) == 0
    assert "report: runs/zero_bias.html" in capsys.readouterr().out
    page = (tmp_path / "runs" / "zero_bias.html").read_text()
    assert "Labels along rays" in page
    assert "--scale smoke" in page


def test_findings_are_made_from_the_results_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["findings", "zero_bias"]) == 2
    assert "results is no folder of results" in capsys.readouterr().err
    (tmp_path / "results").mkdir()
    assert main(["findings", "zero_bias"]) == 0
    empty = capsys.readouterr().out
    assert empty.count("| not measured |") == sum(name.startswith("zero_bias/") for name in REPRODUCTIONS)
    assert "| `neuronal reproduce zero_bias/table1_imagenet_resnet50 --scale paper` |" in empty
    small = replace(
        TABLE1_MNIST_FCN, scales={"small": TABLE1_MNIST_FCN.scales["smoke"]}, name="zero_bias/table1_mnist_fcn"
    )
    file = reproduce(small, "small", runs=tmp_path / "runs", results=tmp_path / "results")
    assert main(["findings", "zero_bias"]) == 0
    assert "processes" not in capsys.readouterr().out
    file.write_text(file.read_text().replace('"workers": 1', '"workers": 3'))
    assert main(["findings", "zero_bias", "--out", "docs/page.md"]) == 0
    text = (tmp_path / "docs" / "page.md").read_text()
    assert "without biases accuracy does not depend on contrast | **reproduced**" in text
    assert "--scale small` |" in text
    assert " s by 3 processes (what it is made of, " in text
    head = next(line for line in text.splitlines() if line.startswith("| contrast"))
    assert head.count("reported (%)") == 2
    assert "| 88.27 |" in text
    figure = tmp_path / "docs" / "figures" / "zero_bias-table1_mnist_fcn-1.svg"
    assert figure.read_text().startswith("<svg")
    assert "(figures/zero_bias-table1_mnist_fcn-1.svg)" in text
    assert main(["findings", "nobody"]) == 2
    assert "Unknown paper" in capsys.readouterr().err


def test_a_paper_is_all_of_its_tables_and_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["farkas/cutoff", "farkas/table3_imagenet", "geometric/perturbation", "farkas/born_dead"]
    monkeypatch.setattr("neuronal.recipes.REPRODUCTIONS", {name: REPRODUCTIONS[name] for name in names})
    assert main(["reproduce", "farkas", "--scale", "smoke"]) == 0
    out, err = capsys.readouterr()
    places = [f"results/{names[n]}.smoke.json" for n in (0, 1, 3)]
    assert [line for line in out.splitlines() if line.startswith("result: ")] == [f"result: {one}" for one in places]
    assert "farkas/cutoff, 1 of 3\n" in err
    assert all(map(Path.exists, map(Path, places)))
    assert main(["reproduce", "farkas", "--scale", "smoke", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert [answer["reproduction"] for answer in answers] == [names[n] for n in (0, 1, 3)]
    assert main(["reproduce", "farkas", "--scale", "smoke", "--seeds", "3"]) == 2
    assert capsys.readouterr().err == (
        "neuronal: --seeds and --model go with one table or figure, got all 3 of farkas.\n"
    )
    assert main(["reproduce", "farkass", "--scale", "smoke"]) == 2
    assert "Unknown paper 'farkass'. Did you mean 'farkas'?" in capsys.readouterr().err
    assert main(["reproduce", "farkas", "--scale", "tiny"]) == 2
    assert "Unknown scale 'tiny'" in capsys.readouterr().err


def test_the_command_prints_and_lists(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == list(REPRODUCTIONS)
    assert main(["reproduce", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == list(REPRODUCTIONS)
    assert main(["reproduce", "zero_bias/table1_mnist_fcn", "--scale", "smoke"]) == 0
    out = capsys.readouterr().out
    assert "contrast" in out
    assert "result: results/zero_bias/table1_mnist_fcn.smoke.json" in out
    assert main(["reproduce", "zero_bias/table1_mnist_fcn", "--scale", "smoke", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["scale"] == "smoke"


@pytest.mark.parametrize("command", ["findings", "report"])
def test_a_result_that_lacks_something_is_one_line(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "farkas").mkdir(parents=True)
    known = {"reproduction": "farkas/cutoff", "result": {}, "procedure": "cutoff", "options": {}, "scale": "small"}
    (tmp_path / "results" / "farkas" / "cutoff.small.json").write_text(json.dumps(known))
    assert main([command, "farkas" if command == "findings" else "results/farkas"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "neuronal: a result in results/farkas has no '" in line


def test_results_are_asked_what_the_recipe_asks_now(tmp_path, capsys, monkeypatch):
    file = ROOT / "results" / "farkas" / "sum_vs_mean.small.json"
    old = json.loads(file.read_text()) | {"departs": "said long ago"}
    for claim in old["options"]["claims"]:
        claim["text"] = "asked long ago"
    (tmp_path / "farkas").mkdir()
    (tmp_path / "farkas" / file.name).write_text(json.dumps(old))
    one = REPRODUCTIONS["farkas/sum_vs_mean"]
    page, _ = findings_page("about", [one], tmp_path)
    assert "asked long ago" not in page
    assert all(claim["text"] in page for claim in one.scales["small"].options["claims"])
    monkeypatch.chdir(tmp_path)
    assert main(["report", "farkas", "--json"]) == 0
    (sentences_of,) = json.loads(capsys.readouterr().out)["findings"].values()
    assert len(sentences_of) == len(old["options"]["claims"])
    assert not any("asked long ago" in sentence for sentence in sentences_of)
    assert "said long ago" not in (tmp_path / "runs" / "farkas.html").read_text()
    # At a scale that is no more, it is asked what it was.
    page, _ = findings_page("about", [replace(one, scales={"paper": one.scales["paper"]})], tmp_path)
    assert "asked long ago" in page


def test_tables_say_what_they_are():
    answer = read_result(ROOT / "results" / "farkas" / "with_others.small.json")
    first, second = (one.caption for one in tables(answer))
    page = results_page("all", [answer])
    assert f'<p class="soft">{first}.</p>' in page
    assert page.index("<h3>Rates tried</h3>") < page.index(f'<p class="soft">{second}.</p>')
    assert f"<h3>{answer['title']}" not in page


def test_verdicts_are_counted(tmp_path):
    (tmp_path / "farkas").mkdir()
    for name in ("sum_vs_mean", "cutoff"):
        copy(ROOT / "results" / "farkas" / f"{name}.small.json", tmp_path / "farkas")
    own = [REPRODUCTIONS[f"farkas/{name}"] for name in ("sum_vs_mean", "cutoff", "born_dead")]
    page, _ = findings_page("about", own, tmp_path)
    claims = [line for line in page.splitlines() if line.endswith(" --scale small` |")]
    assert len(claims) == 5 + 3 + 1
    (line,) = (line for line in page.splitlines() if line.startswith("Claims of the paper: "))
    count = line.partition(". Written")[0]
    # Counted by hand from the lines themselves.
    words = ("reproduced", "reproduced in part", "not reproduced", "not true as stated")
    theirs = {word: sum(f" | **{word}** | " in line for line in claims) for word in words}
    parts = [f"{number} {word}" for word, number in theirs.items() if number]
    nothing = "; of 1 table or figure there is no result"
    assert count == f"Claims of the paper: {', '.join(parts)}{nothing}. Of 3 of ours 1 is shown"


@pytest.mark.parametrize("paper", PAPERS)
def test_the_page_of_findings_is_that_of_the_results(paper):
    own = [one for name, one in REPRODUCTIONS.items() if name.startswith(f"{paper}/")]
    page, figures = findings_page(PAPERS[paper], own, ROOT / "results")
    folder = ROOT / "docs" / "findings"
    assert (folder / f"{paper}.md").read_text() == page, "neuronal findings writes it anew"
    assert sorted(figures) == sorted(f"figures/{file.name}" for file in (folder / "figures").glob(f"{paper}-*.svg"))


@pytest.mark.parametrize("cone", [False, True])
def test_what_mixtures_show(cone):
    def verdicts(changed, certified):
        rows = [
            {
                "neuron": neuron,
                "seed": 0,
                "mixtures": 10,
                "convex_changed": changed,
                "conic_changed": changed,
                "certified": {"count": certified, "total": 100},
            }
            for neuron in ("zero_bias", "standard")
        ]
        return [
            one.verdict for one in PROCEDURES["regions"].findings({"result": {"rows": rows, "cone": cone, "points": 4}})
        ]

    yes, no = "shown", "not shown"
    assert verdicts(0, 100) == ([yes, no, yes] if cone else ["reproduced", "not true as stated", yes, yes])
    assert verdicts(3, 0) == ([no, yes, no] if cone else ["not reproduced", "reproduced", no, no])


def pairs_row(accuracy, equal, certified=90, neuron="zero_bias", name="net"):
    return {
        "name": name,
        "neuron": neuron,
        "seed": 0,
        "data": "mnist",
        "accuracy": accuracy,
        "same_pattern": {"count": equal, "total": 1000},
        "interpolants": 1000,
        "changed": 0,
        "certified": {"count": certified, "total": 100},
        "unknown": 0,
    }


def pairs_verdicts(rows, units=30):
    recipes = [{"name": row["name"], "family": row["neuron"], "widths": [units]} for row in rows]
    found = PROCEDURES["interpolation"].findings({"result": {"rows": rows}, "recipes": recipes})
    return {one.claim.split(" (")[0]: one.verdict for one in found}


def test_what_equal_patterns_show():
    small = pairs_verdicts([pairs_row(0.32, 200), pairs_row(0.81, 4)])
    assert small["In networks of 30 units"] == "reproduced in part"
    assert small["In networks of around 80% a few pairs are still found"] == "reproduced"
    assert (
        pairs_verdicts([pairs_row(0.81, 200)])["In networks of around 80% a few pairs are still found"]
        == "reproduced in part"
    )
    over = "In networks of over 90% no pairs are found"
    assert pairs_verdicts([pairs_row(0.95, 0)], 64)[over] == "reproduced"
    # Many networks without any do not outweigh one with some.
    assert pairs_verdicts([pairs_row(0.95, 0)] * 9 + [pairs_row(0.95, 1)], 64)[over] == "reproduced in part"
    assert pairs_verdicts([pairs_row(0.95, 1)], 64)[over] == "not reproduced"


def test_what_proofs_show():
    biased, larger = (
        "Such guarantees hardly exist in networks with biases",
        "Such guarantees are rarely identified in larger and more accurate networks",
    )
    both = [pairs_row(0.95, 0), pairs_row(0.95, 0, 80, "standard")]
    assert pairs_verdicts(both)[biased] == pairs_verdicts(both)[larger] == "not true as stated"
    none = [pairs_row(0.95, 0), pairs_row(0.95, 0, 2, "standard")]
    assert pairs_verdicts(none)[biased] == "reproduced"
    fading = [pairs_row(0.8, 0), pairs_row(0.95, 0, 10, name="larger")]
    assert pairs_verdicts(fading)[larger] == "reproduced"


def test_rays_bend_or_not():
    def row(neuron, score):
        return {"task": "Dir 1", "neuron": neuron, "fitted": 1, "points": 2, "scales": False, "along": {"score": score}}

    def verdict(zero, standard):
        rows = [row("zero_bias", zero), row("standard", standard)]
        rows += [one | {"task": "Dir 2"} for one in rows]
        return PROCEDURES["expressiveness"].findings({"result": {"rows": rows}})[-1].verdict

    assert verdict([0, 1, 2, 3], [0, 1, 0, 1]) == "reproduced"
    assert verdict([0, 1, 0, 1], [0, 1, 0, 1]) == "not reproduced"
    assert verdict([0, 1, 2, 3], [0, 1, 2, 3]) == "not reproduced"


def test_published_models_are_not_measured_without_them():
    def claims(rows):
        return [one.verdict for one in PROCEDURES["zero_image"].findings({"result": {"rows": rows}})]

    ours = {"neuron": "standard", "entropy": 0.5, "largest": 0.6, "classes": 10}
    assert claims([ours]) == ["reproduced", "not measured"]
    assert claims([ours, ours | {"neuron": ""}]) == ["reproduced"]


ONCE = {
    "zero_bias/interpolation": "neuronal.experiments.procedures.zero_bias.interpolation.examine",
    "zero_bias/convex_region": "neuronal.experiments.procedures.zero_bias.regions._certified",
    "zero_bias/expressiveness": "neuronal.experiments.procedures.zero_bias.expressiveness._trained",
    "zero_bias/ntk": "neuronal.experiments.procedures.zero_bias.ntk._training",
    "implicit_bias/boundary_2d": "neuronal.experiments.procedures.implicit_bias.boundary_2d._trained",
    "implicit_bias/energy": "neuronal.experiments.procedures.implicit_bias.energy._cell",
    "farkas/born_dead": "neuronal.experiments.procedures.farkas.born_dead.fit",
    "farkas/dead_units": "neuronal.experiments.procedures.farkas.activity._run",
}
"""What each part of these takes long by."""


@pytest.mark.parametrize("name", ONCE)
def test_stopped_it_goes_on_and_ends_as_if_it_had_not_been(name, tmp_path, monkeypatch, capsys):
    module, _, function = ONCE[name].rpartition(".")
    real, calls = getattr(import_module(module), function), []

    def stopped(*words, **options):
        calls.append((Path("whole").exists(), words))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*words, **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ONCE[name], stopped)
    assert main(["reproduce", name, "--scale", "smoke"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        "neuronal: stopped; what is finished is kept in runs. The same command goes on from there."
    )
    assert main(["reproduce", name, "--scale", "smoke"]) == 0
    again = reproduce(REPRODUCTIONS[name], "smoke", runs=Path("runs"), results=Path("again"))
    whole = reproduce(REPRODUCTIONS[name], "smoke", runs=Path("other"), results=Path("whole"))
    # Of all parts one was tried twice; where all are kept none is made, and elsewhere all are.
    num_whole = sum(is_whole for is_whole, _ in calls)
    assert len(calls) == 2 * num_whole + 1
    assert read_result(again)["result"] == read_result(whole)["result"]
