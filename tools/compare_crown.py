"""Our balls against those of plain CROWN: ``python tools/compare_crown.py SOURCE [--images 200]``.

``SOURCE`` is a checkout of auto_LiRPA (Verified-Intelligence/auto_LiRPA on GitHub; the 0.3 of the package index does not
import any more). What it needs beside torch (``pip install --no-deps --target FOLDER appdirs graphviz``) is looked for on
``PYTHONPATH``. CROWN is ``compute_bounds(method="CROWN")`` in float32 with the default options, in which rounding is not
counted, and a search for the largest radius at which all margins are positive. Ours is ``certify_ball``, whose
certificates are checked again. Both are about the class the network predicts. Seconds are those of one processor. Writes
``results/bench/crown.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn

from neuronal import create_model
from neuronal.certify import certify_ball, check
from neuronal.core.files import write_whole
from neuronal.data import load
from neuronal.data.dataset import Split
from neuronal.experiments.environment import environment
from neuronal.train import Plan, fit

FILE = Path(__file__).parents[1] / "results" / "bench" / "crown.json"
PLAN = Plan(epochs=20, batch_size=64, optim="adam", lr=1e-3)
KINDS = {"MLP": "fcn", "CNN": "cnn"}
HALVINGS = 12
RELATIVE = 1.25  # the search starts with steps of this factor


def trained(kind: str, train: Split) -> nn.Module:
    torch.manual_seed(0)
    model = create_model(KINDS[kind], "standard", in_chans=1, img_size=8)
    fit(model, train, PLAN, seed=0)
    return model.eval()


class Crown:
    """Margins of one network in balls, by auto_LiRPA."""

    def __init__(self, model: nn.Module, x: Tensor):
        from auto_LiRPA import BoundedModule  # type: ignore[import-not-found]

        self.model, self.bounded = model, BoundedModule(model, x[:1], device="cpu")

    def margin(self, x: Tensor, norm: object, radius: float) -> float:
        from auto_LiRPA import BoundedTensor, PerturbationLpNorm

        with torch.no_grad():
            label = int(self.model(x)[0].argmax())
            others = [c for c in range(10) if c != label]
            gaps = (torch.eye(10)[label] - torch.eye(10)[others]).unsqueeze(0)
            ball = PerturbationLpNorm(norm=math.inf if norm == "inf" else 2, eps=radius)
            bounds = self.bounded.compute_bounds((BoundedTensor(x, ball),), C=gaps, method="CROWN", bound_upper=False)
        return float(bounds[0].min())

    def radius(self, x: Tensor, norm: object, start: float) -> float:
        return largest(lambda r: self.margin(x, norm, r) > 0, start)


def largest(holds: Callable[[float], bool], start: float) -> float:
    """The largest radius at which it holds, to 12 halvings of a factor 1.25; what it says is taken as monotone."""
    low, high = start, start
    while not holds(low):
        high, low = low, low / RELATIVE
        if low < 1e-6:
            return 0.0
    while high == low or holds(high):
        low, high = high, high * RELATIVE
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def compared(model: nn.Module, x: Tensor, norm: Any) -> dict[str, Any]:
    """Radii of both, one image after the other."""
    crown = Crown(model, x)
    pairs, ours_s, crown_s, check_s, confirmed = [], [], [], [], 0
    for image in x:
        start = process_time()
        certificate = certify_ball(model, image, norm=norm)
        made = process_time()
        confirmed += bool(check(certificate, model))
        checked = process_time()
        radius = certificate.evidence.radius if certificate.verdict == "certified" else 0.0
        searching = process_time()
        theirs = crown.radius(image.unsqueeze(0), norm, 1.2 * radius or 1e-3)
        crown_s.append(process_time() - searching)
        ours_s.append(made - start)
        check_s.append(checked - made)
        pairs.append((radius, theirs))
    ratios = sorted(ours / theirs for ours, theirs in pairs if theirs)
    return {
        "mean_ratio": fmean(ratios),
        "worst_tenth": fmean(ratios[: max(1, len(ratios) // 10)]),
        "tenth_percentile": ratios[len(ratios) // 10],
        "least_ratio": ratios[0],
        "images": len(x),
        "images_crown_proves_nothing_of": len(pairs) - len(ratios),
        "confirmed_by_check": confirmed,
        "seconds_ours": fmean(ours_s),
        "seconds_check": fmean(check_s),
        "seconds_crown": fmean(crown_s),
        "mean_radius_ours": fmean(ours for ours, _ in pairs),
        "mean_radius_crown": fmean(theirs for _, theirs in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="a checkout of auto_LiRPA")
    parser.add_argument("--images", type=int, default=200, help="the first images of the digits test data")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--name", default="ours", help="the rows' name in the file; those of other names stay")
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.append(str(options.source))
    import auto_LiRPA

    digits = load("digits")
    x = digits.test.x[: options.images]
    rows = []
    for kind in options.kinds:
        model = trained(kind, digits.train)
        with torch.no_grad():
            accuracy = float((model(digits.test.x).argmax(1) == digits.test.y).float().mean())
        for norm in ("inf", 2):
            row = {
                "code": options.name,
                "commit": environment()["commit"],
                "kind": kind,
                "norm": norm,
                "test_accuracy": accuracy,
            }
            rows.append(row | compared(model, x, norm))
            print(json.dumps(rows[-1]), flush=True)
    before = json.loads(options.out.read_text())["table"] if options.out.is_file() else []
    result = {
        "environment": environment() | {"auto_LiRPA": auto_LiRPA.__version__, "compared_with": "auto_LiRPA, CROWN"},
        "networks": "create_model('fcn' or 'cnn', 'standard', in_chans=1, img_size=8) after torch.manual_seed(0); "
        f"fit(seed=0) with {PLAN}",
        "images": "the first of the digits test data, as many as each row says, whatever the network says of them",
        "table": [row for row in before if row["code"] != options.name or row["kind"] not in options.kinds] + rows,
    }
    write_whole(options.out, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
