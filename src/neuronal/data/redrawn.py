"""Other splits of the same rows, for estimates over splits."""

from __future__ import annotations

from dataclasses import replace

import torch

from neuronal.data.arrays import TEST_SHARE
from neuronal.data.dataset import Dataset, Split


def redrawn(data: Dataset, share: float, seed: int) -> Dataset:
    """``share`` of all rows, training and test together, in an order drawn by ``seed``; a fifth of them for testing.

    Law:
        No row is in both parts, and every row is in one if ``share`` is 1 (tests/data/test_redrawn.py).
    """
    if not 0 < share <= 1:
        raise ValueError(f"a share of rows to redraw needs to be in (0, 1], got {share}.")
    stored, answers = (torch.cat([getattr(p, name) for p in (data.train, data.test)]) for name in ("stored", "answers"))
    count = round(share * len(answers))
    rows = torch.randperm(len(answers), generator=torch.Generator().manual_seed(seed))[:count]
    num_test = round(TEST_SHARE * count)
    test, train = (Split(stored[part], answers[part]) for part in (rows[:num_test], rows[num_test:]))
    return replace(data, train=train, test=test)
