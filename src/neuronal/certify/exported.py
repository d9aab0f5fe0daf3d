"""The exported graph of a model, walked with rules: how the checkers see what becomes of an input.

Nothing here is used to make a certificate.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from neuronal.core.inference import Arguments


class Mark:
    """What is known of a value that depends on the input."""


Rule = Callable[[str, Arguments, fx.Node], Any]


def walk(model: nn.Module, x: Tensor, mark: Mark, rule: Rule, whole: Sequence[Any] = ()) -> Any:
    """What is known of the output, the input being marked; None where the model cannot be exported or a rule raises.

    ``rule(name, arguments, node)`` is asked for the mark of each operation on marked values; all else is computed.
    Operations in ``whole`` are not taken apart before.
    """
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            # A model that works in place on its input would give that back too.
            table = torch.export.default_decompositions()
            for operation in whole:
                table.pop(operation, None)
            program = torch.export.export(_OnCopy(model), (x,), strict=False).run_decompositions(table)
            result = _Walk(program.module(), rule).run(mark)
    except Exception:
        # Whatever export or a graph cannot do, the answer is the same: not confirmed.
        return None
    return result if isinstance(result, Mark) else None


class _OnCopy(nn.Module):
    """The model, given a copy of its input."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model(x.clone())


def leaves(value: Any) -> list[Any]:
    """All values in lists, tuples and dictionaries."""
    if isinstance(value, list | tuple):
        return [leaf for v in value for leaf in leaves(v)]
    return [leaf for v in value.values() for leaf in leaves(v)] if isinstance(value, dict) else [value]


class _Walk(fx.Interpreter):
    """Computes constants as they are and asks the rule about everything else."""

    def __init__(self, module: nn.Module, rule: Rule):
        super().__init__(module)
        self.rule = rule

    def run_node(self, n: fx.Node) -> Any:
        if n.op == "call_module":  # guards on the input's shape
            return None
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "output":
            (result,) = leaves(args)
            return result
        if n.op != "call_function" or not any(isinstance(v, Mark) for v in leaves([args, kwargs])):
            return super().run_node(n)
        if n.target is operator.getitem:
            return args[0][args[1]] if isinstance(args[0], tuple) else args[0]
        target: Any = n.target
        name = target._schema.name.partition("::")[2]
        if name.startswith("_assert"):
            return None
        names = [a.name for a in target._schema.arguments]
        given = {a.name: a.default_value for a in target._schema.arguments}
        return self.rule(name, given | dict(zip(names, args, strict=False)) | kwargs, n)
