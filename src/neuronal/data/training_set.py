"""Less training data, or worse, or other: fractions of a training set, wrong labels, and other splits of the same rows."""

from __future__ import annotations

from dataclasses import replace

import torch

from neuronal.data.arrays import TEST_SHARE
from neuronal.data.dataset import Dataset, Split


def fraction(split: Split, share: float, seed: int) -> Split:
    """``share`` of each class, at least one example of it, in the order of ``split``.

    Law:
        For the same seed a smaller fraction is a part of every larger one (tests/data/test_training_set.py).
    """
    if not 0 < share <= 1:
        raise ValueError(f"a fraction of the training set needs to be in (0, 1], got {share}.")
    random = torch.Generator().manual_seed(seed)
    # One order per class, whatever the share: a smaller fraction takes fewer from the same front.
    orders = [rows[torch.randperm(len(rows), generator=random)] for rows in split.groups()]
    kept = torch.cat([order[: max(1, round(share * len(order)))] for order in orders])
    return split.rows(kept.sort().values.to(split.y.device))


def with_wrong_labels(split: Split, share: float, num_classes: int, seed: int) -> Split:
    """The same inputs, with ``share`` of all labels replaced by another class, every other class equally likely.

    Which labels, and by what, depends on ``seed`` alone; exactly ``round(share * len(split))`` are wrong.

    Reference:
        Mohedano, Bertalmío and others, Updating the standard neuron model in artificial neural networks: the
        memorisation experiment.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share of wrong labels needs to be in [0, 1], got {share}.")
    if num_classes < 2:
        raise ValueError(f"a wrong label needs at least 2 classes, got {num_classes}.")
    if split.y.is_floating_point():
        raise ValueError("wrong labels need classes, got a split whose answers are numbers.")
    random = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(split), generator=random)[: round(share * len(split))].to(split.y.device)
    steps = torch.randint(1, num_classes, (len(rows),), generator=random).to(split.y.device)
    y = split.y.clone()
    y[rows] = (y[rows] + steps) % num_classes
    return replace(split, answers=y)


def redrawn(data: Dataset, share: float, seed: int) -> Dataset:
    """``share`` of all rows, training and test together, in an order drawn by ``seed``; a fifth of them for testing.

    Law:
        No row is in both parts, and every row is in one if ``share`` is 1 (tests/data/test_training_set.py).
    """
    if not 0 < share <= 1:
        raise ValueError(f"a share of rows to redraw needs to be in (0, 1], got {share}.")
    stored, answers = (torch.cat([getattr(p, name) for p in (data.train, data.test)]) for name in ("stored", "answers"))
    count = round(share * len(answers))
    rows = torch.randperm(len(answers), generator=torch.Generator().manual_seed(seed))[:count]
    num_test = round(TEST_SHARE * count)
    test, train = (Split(stored[part], answers[part]) for part in (rows[:num_test], rows[num_test:]))
    return replace(data, train=train, test=test)
