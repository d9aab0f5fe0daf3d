"""Inputs that make a network err: white-box (PGD, APGD), black-box (Pixle), and checks that the numbers can be believed."""

from neuronal.attacks.apgd import apgd
from neuronal.attacks.ball import Ball
from neuronal.attacks.masking import (
    Check,
    more_steps_help,
    reaches_everything,
    solver_does_not_matter,
    white_box_is_strongest,
)
from neuronal.attacks.pgd import pgd
from neuronal.attacks.pixle import pixle
from neuronal.attacks.result import Attacked

__all__ = [
    "Attacked",
    "Ball",
    "Check",
    "apgd",
    "more_steps_help",
    "pgd",
    "pixle",
    "reaches_everything",
    "solver_does_not_matter",
    "white_box_is_strongest",
]
