"""What the implicit-bias paper shows without images: boundaries in the plane, and its propositions."""

from collections.abc import Mapping
from typing import Any

from neuronal.experiments.reproduction import Reproduction, Setting

# Figure 2

PLANE: Mapping[str, Any] = {
    "units": 8,
    "slope": 10.0,
    "couplings": (-0.1, -0.5, -2.0, 0.05),
    "coupling": -0.5,
    "slopes": (1.0, 10.0, 30.0),
    "epochs": 100,
    "grid": 61,
    "seeds": tuple(range(10)),
}
BOUNDARY_2D = Reproduction(
    name="implicit_bias/boundary_2d",
    title="Boundaries between two arrows in the plane",
    where="Figure 2",
    procedure="boundary_2d",
    scales={
        "smoke": Setting(
            options={**PLANE, "couplings": (-0.5, -1.0), "slopes": (3.0, 10.0), "epochs": 2, "grid": 21, "seeds": (0,)}
        ),
        "small": Setting(options=PLANE),
        "paper": Setting(
            options={
                **PLANE,
                "couplings": (-0.1, -0.5, -1.0, -2.0, 0.05),
                "slopes": (1.0, 3.0, 10.0, 30.0),
                "epochs": 400,
                "grid": 201,
            }
        ),
    },
    departs=(
        "Eight units, no batch norm, Adam at 0.01 for all; the number of units, couplings and slopes are lost in the text "
        "at hand. The arrows are drawn by us. Weights are means: the published code sums over units with weights of a half."
    ),
)

# Corollaries 3.1 and 3.2

DESCENTS: Mapping[str, Any] = {
    "units": 16,
    "spreads": (0.0, 0.1, 1.0),
    "rows": 4,
    "starts": 24,
    "steps": 10_000,
    "slopes": (1.0, 10.0, 100.0),
    "products": (-100.0, -10.0, -1.0, 0.25, 0.45, 0.55, 0.75, 0.95, 1.05, 1.25, 1.5, 2.0),
    "seed": 0,
}
ENERGY = Reproduction(
    name="implicit_bias/energy",
    title="Energy and uniqueness over coupling and slope",
    where="Propositions 1 to 3, Corollaries 3.1 and 3.2",
    procedure="energy",
    scales={
        "smoke": Setting(
            options={**DESCENTS, "slopes": (10.0,), "products": (-1.0, 0.45, 0.75, 1.25), "starts": 4, "steps": 300}
        ),
        "small": Setting(options=DESCENTS),
        "paper": Setting(options={**DESCENTS, "units": 64, "starts": 100, "steps": 50_000}),
    },
    departs="Not a figure of the paper: its propositions, tried out on random rows.",
)
