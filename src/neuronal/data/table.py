"""Tables of numbers in csv files: the last column is the answer, a first line that is no numbers is a header."""

from __future__ import annotations

import csv
from decimal import Decimal, localcontext
from math import isfinite
from pathlib import Path

import numpy as np

from neuronal.data.arrays import Arrays, without_test
from neuronal.data.dataset import Task
from neuronal.data.errors import unreadable

CLASS_HEADERS = ("class", "label")
_LARGEST = float(np.finfo(np.float32).max)


def read_table(file: Path, task: Task | None = None) -> Arrays:
    """The rows of ``file``, a fifth of them for testing.

    Args:
        file: Comma-separated; features first, answer last.
        task: Left out, it is classification when the last column is called ``class`` or ``label`` or has something that
            is no number (``nan`` is one, and refused), and regression otherwise.
    """
    title, lines = _lines(file)
    answers = [row[-1].strip() for _, row in lines]
    if task is None:
        named = title is not None and title.lower() in CLASS_HEADERS
        task = "classification" if named or not all(map(_is_float, answers)) else "regression"
    x = np.array([[_number(file, at, cell) for cell in row[:-1]] for at, row in lines], dtype=np.float32)
    if task == "regression":
        y = np.array([_number(file, at, row[-1]) for at, row in lines], dtype=np.float32)
        return without_test(x, y, ())
    classes = _classes(answers)
    numbers = {name: number for number, name in enumerate(classes)}
    return without_test(x, np.array([numbers[_plain(answer)] for answer in answers], dtype=np.int64), classes)


def _lines(file: Path) -> tuple[str | None, list[tuple[int, list[str]]]]:
    """Name of the last column, if there is a header, and the rows with their line numbers; all of one length."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as opened:
            lines = [(at, row) for at, row in enumerate(csv.reader(opened), 1) if row]
    except (UnicodeDecodeError, csv.Error, OSError) as wrong:
        raise unreadable(str(file), "a table", wrong) from wrong
    first = lines[0][1][:-1] if lines else []
    has_header = any(cell.strip() for cell in first) and not any(map(_is_number, first))
    title = lines.pop(0)[1][-1].strip() if has_header else None
    if len(lines) < 2:
        raise ValueError(f"{file}: needs at least 2 rows of numbers, got {len(lines)}.")
    if empty := [at for at, row in lines if not row[-1].strip()]:
        raise ValueError(f"{file}, line {empty[0]}: the last column, the answer, is empty.")
    width = len(lines[0][1])
    if width < 2:
        raise ValueError(f"{file}: needs at least 2 columns separated by commas, got 1.")
    for at, row in lines:
        if len(row) != width:
            raise ValueError(f"{file}, line {at}: needs {width} columns, got {len(row)}.")
    return title, lines


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    # Python reads 1_000 as a thousand.
    return "_" not in text


def _is_number(text: str) -> bool:
    return _is_float(text) and isfinite(float(text))


def _number(file: Path, at: int, text: str) -> float:
    if not _is_number(text):
        raise ValueError(f"{file}, line {at}: needs a finite number, got {text.strip()!r}.")
    if abs(float(text)) > _LARGEST:
        raise ValueError(f"{file}, line {at}: {text.strip()} is too large for 32 bits. Use another unit.")
    return float(text)


def _plain(answer: str) -> str:
    """Numbers that are the same are the same class, as 1 and 1.0, 0 and -0; others never are, whatever their digits."""
    if not _is_number(answer):
        return answer
    if not float(answer):
        return "0"
    with localcontext(prec=len(answer)):
        number = Decimal(answer).normalize()
    return f"{number:f}" if abs(number.adjusted()) < 20 else str(number)


def _classes(answers: list[str]) -> tuple[str, ...]:
    """Names of the classes; in the order of their numbers if they are numbers, else of the alphabet."""
    names = {_plain(answer) for answer in answers}
    return tuple(sorted(names, key=Decimal if all(map(_is_number, names)) else str))
