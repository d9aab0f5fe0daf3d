"""The drawing of the Farkas paper's Figure 1, against differences of losses and signs of pre-activations."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from neuronal.experiments.procedures.farkas.born_dead import (
    AWAY,
    NETWORKS,
    _lines,
    clouds,
    facing_away,
    facing_one,
    findings,
    hidden_gradient,
    network,
)


@pytest.mark.parametrize("seed", range(5))
def test_units_face_away_from_every_point(seed):
    x, y = clouds(seed)
    w, b = facing_away(x, seed)
    assert w.norm() == pytest.approx(1)
    assert (x @ w + b).max().item() == pytest.approx(-AWAY, abs=1e-5)
    # The clouds are apart: the first coordinate tells them.
    assert x[y == 0, 0].max() < x[y == 1, 0].min()


@pytest.mark.parametrize("seed", range(20))
def test_a_unit_sees_one_cloud_alone(seed):
    x, y = clouds(seed)
    w, b = facing_one(x, y)
    on = x @ w + b > 0
    assert not on[y == 0].any()
    assert on[y == 1].double().mean() > 0.75


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [((1.0, 1.0), "not true as stated"), ((1.0, 0.5), "not true as stated"), ((0.5, 0.9), "reproduced")],
)
def test_a_cloud_that_is_not_seen_may_be_told_all_the_same(accuracies, verdict):
    name = "standard, one cloud unseen"
    rows = [{"network": name, "seed": n, "gradient": 0.1, "loss": 0.1, "accuracy": a} for n, a in enumerate(accuracies)]
    every = findings({"result": {"rows": rows, "networks": {name: "one unit, on for one cloud only"}}})
    assert [one.verdict for one in every].count("not measured") == len(NETWORKS) - 1
    (found,) = (one for one in every if one.verdict != "not measured")
    assert found.claim.endswith("does not learn to tell a cloud it does not see (one unit, on for one cloud only)")
    assert found.verdict == verdict


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_is_that_of_differences(name):
    x, y = (t.double() if t.is_floating_point() else t for t in clouds(0))
    model = network(name, x.float(), y, 0).double()
    squares = 0.0
    for parameter in model[0].parameters():
        for i in range(parameter.numel()):
            losses = []
            for step in (1e-5, -2e-5):
                with torch.no_grad():
                    parameter.view(-1)[i] += step
                    losses.append(cross_entropy(model(x), y).item())
            with torch.no_grad():
                parameter.view(-1)[i] += 1e-5
            squares += ((losses[0] - losses[1]) / 2e-5) ** 2
    # Batch norm takes a bias and a scale away; what is left of that gradient is rounding and eps.
    assert hidden_gradient(model, x, y) == pytest.approx(squares**0.5, rel=1e-4, abs=1e-6)
    if name in ("standard", "standard, two units"):
        assert hidden_gradient(model, x, y) == 0


@pytest.mark.parametrize("name", NETWORKS)
def test_lines_are_where_units_switch(name):
    x, y = clouds(1)
    model = network(name, x, y, 1)
    z = model[:-2](x).detach()
    lines = torch.tensor(_lines(model, x, name))
    drawn = x @ lines[:, :2].T + lines[:, 2]
    far = z.abs() > 1e-3
    assert (drawn.sign() == z.sign())[far].all()
    assert far.double().mean() > 0.9
