"""Inputs that make a network err: white-box (PGD, APGD), black-box (Pixle), and checks that the numbers can be believed."""

from neuronal.attacks.apgd import apgd
from neuronal.attacks.ball import Ball
from neuronal.attacks.pgd import pgd
from neuronal.attacks.pixle import pixle
from neuronal.attacks.result import Attacked

__all__ = ["Attacked", "Ball", "apgd", "pgd", "pixle"]
