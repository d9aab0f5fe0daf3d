"""A paper of two small tables, for tests of what goes for every paper."""

import sys
from dataclasses import replace
from time import sleep

from neuronal.cli.app import main
from neuronal.experiments import Recipe
from neuronal.report import Column, Figure, blank, table
from neuronal_papers import registry
from neuronal_papers.core import Reproduction, Setting, one_table, title_of
from neuronal_papers.judge import Above, Case, Claim, Evidence, Fact
from neuronal_papers.seeds import NEURON, at, by_network, differences

ABOUT = "A paper on toys (Nobody)"
STANDARD = Recipe("net", model="fcn", widths=(4,), epochs=1, probes=(), seeds=(0, 1))
NETWORKS = Setting((STANDARD, replace(STANDARD, family="zero_bias")))


def note(side):
    """Told of every square that is measured."""


def accuracies(setting, work):
    records = work.records(setting.recipes)
    rows = [{"neuron": r.recipe.family, "seed": r.seed, "accuracy": r.metrics["accuracy"]} for r in records]
    return {"rows": rows, "seeds": list(setting.recipes[0].seeds)}


def squares(setting, work):
    def square(item):
        note(item["side"])
        sleep(setting.options.get("seconds", 0.0))
        return {"side": item["side"], "area": item["side"] ** 2}

    parts = work.parts({"procedure": "squares"}, [{"side": side} for side in setting.options["sides"]], square)
    return {"rows": list(parts), "seeds": setting.options.get("seeds", ())}


def difference(result):
    standard, zero_bias = by_network(result["result"]["rows"], "neuron")
    return [Case("", differences(zero_bias, standard, at("accuracy")))]


def even(result):
    areas = [row["area"] for row in result["result"]["rows"]]
    odd = sum(area % 2 for area in areas)
    return Evidence(len(areas), odd, f"{odd} of {len(areas)} odd")


def area_tables(result):
    rows = result["result"]["rows"]
    sides = [{"sum": sum(row["side"] for row in rows)}]
    return [
        table(title_of(result), (Column("side", "side"), Column("area", "area")), rows, caption="In metres"),
        table("All sides", (Column("sum", "sum"),), sides, caption="Of sides alone"),
    ]


def area_figures(result):
    with blank("toy areas") as sheet:
        sheet.axes.plot([row["area"] for row in result["result"]["rows"]])
    return [Figure(sheet.svg, "Areas", "One by one.")]


ACCURACY = Reproduction(
    name="toy/accuracy",
    title="Accuracy of toys",
    where="Table 1",
    scales={"smoke": NETWORKS, "small": NETWORKS},
    measure=accuracies,
    claims=(Claim("Toys need no biases", difference, Above()),),
    tables=one_table((NEURON, Column("accuracy, %", lambda row: 100 * row["accuracy"], ".1f"))),
)
AREAS = Reproduction(
    name="toy/areas",
    title="Areas of squares",
    where="Figure 1",
    scales={scale: Setting(options={"sides": (2, 4, 6)}) for scale in ("smoke", "small", "paper")},
    measure=squares,
    claims=(
        Fact("Areas are even", even),
        Claim("Areas are large", lambda result: [Case("", [row["area"] for row in result["result"]["rows"]])], Above()),
        Claim("Areas have weights", lambda result: [], Above(), beyond_paper=True),
    ),
    tables=area_tables,
    figures=area_figures,
    criteria="By a ruler.",
    reported={"side": 2},
    departs="Squares are smaller.",
)
REPRODUCTIONS = (ACCURACY, AREAS)


if __name__ == "__main__":
    from tests.neuronal_papers import toy

    # This is the only paper there is.
    sys.modules["neuronal_papers.toy"], registry.PAPERS = toy, ("toy",)
    sys.exit(main(sys.argv[1:]))
