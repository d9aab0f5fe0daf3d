"""The implicit-bias equation with all pairs written out: the oracle of the fast solvers, of which it uses nothing."""

import torch


def solve_dense(a, coupling, slope, *, tolerance=1e-12, max_steps=100):
    """z of rows of units, by Newton's method with steps halved until they help; O(N^2) memory per row."""
    scale = a.abs().amax(1).clamp_min(1)

    def violation(z):
        return z - a + coupling * (slope * (z.unsqueeze(1) - z.unsqueeze(2))).tanh().mean(2)

    z, F = a, violation(a)
    for _ in range(max_steps):
        open_rows = F.abs().amax(1) > tolerance * scale
        if not open_rows.any():
            return z
        K = 1 - (slope * (z.unsqueeze(1) - z.unsqueeze(2))).tanh().square()
        K = coupling * slope / a.shape[1] * K
        change = torch.linalg.solve(K + torch.diag_embed(1 - K.sum(2)), F)
        length = open_rows.to(a.dtype).unsqueeze(1)
        for _ in range(40):
            new = z - length * change
            after = violation(new)
            too_long = open_rows & ~(after.norm(dim=1) < F.norm(dim=1))
            if not too_long.any():
                break
            length = torch.where(too_long.unsqueeze(1), length / 2, length)
        z, F = new, after
    raise AssertionError("the oracle did not converge")


def solve_recorded(a, coupling, slope, *, start=None, steps=8):
    """z by plain Newton steps, every operation recorded, for derivatives of any order.

    Couplings have to be weak for them to get there from ``a``; each step from the solution makes one more order right.
    """
    n, z = a.shape[1], a if start is None else start
    lam, p = coupling[:, None, None], slope[:, None, None]
    for _ in range(steps):
        t = (p * (z.unsqueeze(1) - z.unsqueeze(2))).tanh()
        K = lam * p * (1 - t * t) / n
        F = z - a + (lam * t).mean(2)
        z = z - torch.linalg.solve(K + torch.diag_embed(1 - K.sum(2)), F)
    return z
