r"""Numbers in half precision, two at a time as one of 32 bits, by single instructions of a GPU."""

from __future__ import annotations

import triton
import triton.language as tl

# Inline assembly is for the GPU alone.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def pair(a, b):
    """Two numbers in half precision as one of 32 bits."""
    if _INTERPRETED:
        low = a.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        found = low | (b.to(tl.float16).to(tl.int16, bitcast=True).to(tl.int32) << 16)
    else:
        found = tl.inline_asm_elementwise(
            "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1
        )
    return found


@triton.jit
def pinned_pair(a, b):
    """The same, but computed once per unit, and not on every line by whoever needs it."""
    if _INTERPRETED:
        found = pair(a, b)
    else:
        # What is not pure is not repeated.
        found = tl.inline_asm_elementwise(
            "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=False, pack=1
        )
    return found


@triton.jit
def apart(pairs):
    """The two again."""
    if _INTERPRETED:
        a, b = (pairs & 0xFFFF).to(tl.int16), (pairs >> 16).to(tl.int16)
        a, b = a.to(tl.float16, bitcast=True), b.to(tl.float16, bitcast=True)
    else:
        a, b = tl.inline_asm_elementwise(
            "mov.b32 {$0, $1}, $2;", "=h,=h,r", [pairs], dtype=(tl.float16, tl.float16), is_pure=True, pack=1
        )
    return a, b


@triton.jit
def equal(a, b):
    """1 where equal, else 0, both numbers of a pair."""
    if _INTERPRETED:
        a0, a1 = apart(a)
        b0, b1 = apart(b)
        found = pair((a0 == b0).to(tl.float32), (a1 == b1).to(tl.float32))
    else:
        found = tl.inline_asm_elementwise(
            "set.eq.f16x2.f16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1
        )
    return found


@triton.jit
def times(a, b):
    if _INTERPRETED:
        a0, a1 = apart(a)
        b0, b1 = apart(b)
        found = pair(a0 * b0, a1 * b1)
    else:
        found = tl.inline_asm_elementwise(
            "mul.f16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.int32, is_pure=True, pack=1
        )
    return found


@triton.jit
def reciprocal(x):
    """1 / x of numbers that are not tiny, in one instruction; 0 where they are huge or infinite."""
    if _INTERPRETED:
        found = 1 / x
    else:
        found = tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return found
