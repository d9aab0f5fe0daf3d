"""Compiles kernels of ours for an H200 on a machine that has none: ``python -m tests.ops.kernels.made_for_gpu NAME ...``.

Prints registers and bytes of stack of each, as lines of JSON. The interpreter, which runs the kernels in the tests here,
takes more than the compiler does, and knows nothing of registers.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

H200 = ("cuda", 90, 32)
WHOLE, FLAG, NUMBERS, HALVES = "*fp32", "*i1", "*i64", "*bf16"
# Types of arguments by name; others are pointers to float32, or whole numbers if the name is no pointer's.
KINDS = {"converged_ptr": FLAG, "steps_ptr": NUMBERS, "tables_ptr": "*fp16"}
KINDS |= dict.fromkeys(("weight", "bias", "g", "g_bias"), HALVES)
KINDS |= dict.fromkeys(("base", "margin", "cutoff", "tolerance"), "fp32")
INTEGERS = {"rows", "num_couplings", "num_slopes", "max_steps", "units", "inner", "outer_stride", "inner_stride"}
GRADIENT = {"units": 1024, "WITH_COUPLING": True, "WITH_SLOPE": True}
CASES = {
    "sphere._forward": {"n": 4608, "BIAS": True, "BLOCK": 1024, "SHORT": True, "num_warps": 8},
    "sphere._backward": {"n": 4608, "BIAS": True, "BLOCK": 1024, "SHORT": True, "num_warps": 8},
    "farkas._forward": {"m": 511, "BIAS": True, "R": 256, "C": 16},
    "farkas._backward": {"BIAS": True, "R": 256, "C": 16},
    "pairs.forward": {"R": 2, "N": 32, "num_warps": 1},
    "pairs.backward": {"WITH_SLOPE": True, "R": 2, "N": 32, "num_warps": 1},
    "grid.forward": {"ROWS": 16, "AGAIN": False, "W": 8, "V": 32, "num_warps": 4, "num_stages": 1},
    "grid.forward wider": {"ROWS": 4, "AGAIN": True, "W": 8, "V": 32, "num_warps": 4, "num_stages": 1},
    "gradient.backward": {**GRADIENT, "NODES": 256, "AGAIN": False, "C": 32, "num_warps": 2},
    "gradient.backward wider": {**GRADIENT, "NODES": 1024, "AGAIN": True, "C": 32, "num_warps": 4},
    "wide.forward": {"num_warps": 8},
    "wide.backward": {"WITH_SLOPE": True, "num_warps": 8},
}
"""Constants and options each kernel is launched with."""


def main(name):
    os.environ["TRITON_INTERPRET"] = "0"
    from importlib import import_module

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, function = name.split()[0].split(".")
    kernel = getattr(import_module(f"neuronal.ops.kernels.{module}"), function)
    options = dict(CASES[name])
    constants = {k: options.pop(k) for k in list(options) if k in kernel.arg_names}
    signature = {argument: kind(argument, constants, module) for argument in kernel.arg_names}
    places = {(kernel.arg_names.index(k),): value for k, value in constants.items()}
    source = ASTSource(fn=kernel, signature=signature, constexprs=places)
    made = triton.compile(source, target=GPUTarget(*H200), options=options)
    print(json.dumps({"name": name, "triton": triton.__version__, **usage(made.asm["cubin"])}))


def kind(argument, constants, module):
    if argument in constants:
        return "constexpr"
    found = KINDS.get(argument, "i32" if argument in INTEGERS or (len(argument) == 1 and argument != "g") else WHOLE)
    if module.startswith("farkas") and argument == "rows":
        found = WHOLE
    return found


def usage(cubin):
    """Registers of a thread and bytes of its stack, which is where registers are spilled to."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        said = subprocess.run([tool, "-res-usage", file], capture_output=True, text=True, check=True).stdout
    return {what.lower(): int(re.search(rf"{what}:(\d+)", said)[1]) for what in ("REG", "STACK", "SHARED")}


if __name__ == "__main__":
    for asked in sys.argv[1:]:
        main(asked)
