"""Golden files: what must stay the same while the code changes. ``python tools/golden.py --update NAME`` writes one anew.

Each name is a file ``tests/golden/NAME.json``; ``tests/golden/test_golden.py`` compares. A commit that updates one says why.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "tests" / "golden"
sys.path.insert(0, str(ROOT))

ROOMS = ("", ".attacks", ".certify", ".data", ".geometry", ".kernel", ".models", ".nn", ".train")
"""Packages with public names."""
BITWISE = ("torch", "processor", "threads")
"""Facts that decide whether ``digits`` is compared bit for bit."""


def recipes() -> dict[str, Any]:
    """Fingerprints of every recipe of every scale of all reproductions, with their seeds."""
    from neuronal.experiments.first_look import RECIPES
    from neuronal_papers.registry import reproductions

    found: dict[str, Any] = {name: [one.fingerprint(), list(one.seeds)] for name, one in RECIPES.items()}
    for name, reproduction in reproductions().items():
        for scale, setting in reproduction.scales.items():
            recipes = [[r.name, r.family, r.fingerprint(), list(r.seeds)] for r in setting.recipes]
            found[f"{name} {scale}"] = recipes
    return found


def _results() -> Iterator[tuple[str, Any, Any]]:
    """Every result: its name and scale, its reproduction, and what it says."""
    from neuronal_papers.registry import reproductions

    for name, reproduction in reproductions().items():
        for scale in ("paper", "small"):
            file = ROOT / "results" / f"{name}.{scale}.json"
            if file.is_file():
                yield f"{name} {scale}", reproduction, reproduction.current(json.loads(file.read_text()))


def tables() -> dict[str, Any]:
    """Every table of every result: its columns, and its rows as the pages show them."""
    return {name: [[table.head, table.rows] for table in one.tables(result)] for name, one, result in _results()}


def figures() -> dict[str, Any]:
    """Every figure of every result: the numbers and words that stand in it, and how many marks it has."""
    return {name: [_marks(drawing.svg) for drawing in one.figures(result)] for name, one, result in _results()}


def _marks(svg: str) -> dict[str, Any]:
    texts = sorted(re.findall(r"<text[^>]*>([^<]+)</text>", svg))
    return {"texts": texts, "paths": svg.count("<path"), "uses": svg.count("<use")}


def digits() -> dict[str, Any]:
    """Metrics of every neuron after two epochs on the built-in images, with one thread, and where they were measured.

    Farkas units with seed 0 are left out: a ReLU switches there within rounding, so each processor trains its own network.
    """
    import torch

    from neuronal.experiments.environment import environment
    from neuronal.experiments.first_look import DIGITS
    from neuronal.experiments.run import run
    from neuronal.nn.families import FAMILIES

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        machine = environment()
        runs = {
            f"{neuron} {seed}": dict(run(replace(DIGITS, family=neuron, epochs=2, probes=()), seed).metrics)
            for neuron in FAMILIES
            for seed in (0, 1)
            if (neuron, seed) != ("farkas", 0)
        }
    finally:
        torch.set_num_threads(threads)
    return {"machine": {"torch": machine["torch"], "processor": machine["processor"], "threads": 1}, "runs": runs}


def certificates() -> dict[str, Any]:
    """Certificates of eight small networks: verdict, reason with five digits of its numbers, confirmed or not."""
    import torch

    from neuronal.certify import (
        certify_activity,
        certify_ball,
        certify_cone,
        certify_hull,
        certify_lipschitz_ball,
        certify_scaling,
        certify_segment,
        check,
    )
    from tests.certify.networks import network

    def certify(kind: str, model: Any, x: Any) -> Any:
        match kind:
            case "segment":
                return certify_segment(model, x[0], x[0] + 0.1 * (x[1] - x[0]))
            case "hull":
                return certify_hull(model, x[:1] + 0.02 * (x - x[:1]))
            case "cone":
                return certify_cone(model, x[:1] + 0.02 * (x[:2] - x[:1]))
            case "ball":
                return certify_ball(model, x[0])
            case "lipschitz":
                return certify_lipschitz_ball(model, x[0])
            case "activity":
                return certify_activity(model, (x[0] - 0.1, x[0] + 0.1))
        return certify_scaling(model, x)

    found: dict[str, Any] = {}
    names = ("relu", "leaky", "prelu", "clamp", "residual", "pooled", "geometric", "farkas")
    for name in names:
        model = network(name)
        generator = torch.Generator().manual_seed(0)
        shape = (3, 1, 8, 8) if name == "pooled" else (3, 6)
        x = torch.randn(shape, generator=generator)
        for kind in ("segment", "hull", "cone", "ball", "lipschitz", "activity", "scaling"):
            try:
                certificate = certify(kind, model, x)
            except (ValueError, TypeError, RuntimeError) as refused:
                found[f"{kind} {name}"] = {"refused": type(refused).__name__}
                continue
            reason = re.sub(r"\d+\.\d+(e[-+]\d+)?", lambda number: f"{float(number[0]):.4g}", certificate.reason)
            confirmed = bool(check(certificate, model)) if certificate.verdict != "unknown" else None
            found[f"{kind} {name}"] = {
                "verdict": certificate.verdict,
                "promise": certificate.promise,
                "reason": reason,
                "witness": certificate.witness is not None,
                "confirmed": confirmed,
            }
    return found


def commands() -> dict[str, Any]:
    """Every command with its options and their defaults."""
    import typer

    from neuronal.cli.app import app

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for word, one in command.commands.items():
                yield from walk(one, f"{name} {word}")
        else:
            options = [["/".join(p.opts), _text(p.default)] for p in command.params if p.name != "help"]
            yield name, sorted(options)

    return dict(walk(typer.main.get_command(app), "neuronal"))


def public() -> dict[str, Any]:
    """The parameters of all public names."""
    found = {}
    for room in ROOMS:
        module = import_module(f"neuronal{room}")
        for name in module.__all__:
            thing = getattr(module, name)
            try:
                parameters = inspect.signature(thing).parameters.values()
            except (TypeError, ValueError):
                found[f"{module.__name__}.{name}"] = type(thing).__name__
                continue
            found[f"{module.__name__}.{name}"] = [_parameter(p) for p in parameters]
    return found


def _parameter(p: inspect.Parameter) -> str:
    default = "" if p.default is p.empty else f"={_text(p.default)}"
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**", p.KEYWORD_ONLY: "keyword "}.get(p.kind, "")
    return f"{star}{p.name}{default}"


def _text(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def state_dicts() -> dict[str, Any]:
    """Digest of the state-dict keys and shapes of every model with every neuron and norm it goes with."""
    from tests.models.networks import ALLOWED, small

    found = {}
    for model, neuron, norm in sorted(ALLOWED):
        state = small(model, neuron, norm=norm).state_dict()
        text = "\n".join(f"{key} {tuple(value.shape)}" for key, value in state.items())
        found[f"{model} {neuron} {norm}"] = [len(state), sha256(text.encode()).hexdigest()[:16]]
    return found


GOLDEN: dict[str, Callable[[], dict[str, Any]]] = {
    made.__name__: made for made in (recipes, tables, figures, digits, certificates, commands, public, state_dicts)
}


def text_of(values: dict[str, Any]) -> str:
    """One entry a line, so that a difference shows what changed."""
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def golden(name: str) -> Any:
    """The golden file called ``name``."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", nargs="+", choices=sorted(GOLDEN), required=True, metavar="NAME")
    for name in parser.parse_args().update:
        (FOLDER / f"{name}.json").write_text(text_of(GOLDEN[name]()), encoding="utf-8")
        print(f"wrote {(FOLDER / name).relative_to(ROOT)}.json")


if __name__ == "__main__":
    main()
