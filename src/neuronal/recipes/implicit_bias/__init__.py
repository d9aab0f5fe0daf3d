"""Mohedano, Bertalmío and others: Updating the standard neuron model in artificial neural networks.

The text at hand has lost its numbers: depths and channels of the networks, rates, epochs, epsilons. What is chosen here is
in the recipes: what the authors' published example says where it says something, and our choice where it does not.
"""

from neuronal.recipes.implicit_bias.attacks import JACOBIAN, PGD, PIXLE, STEALTH, TRANSFER
from neuronal.recipes.implicit_bias.curves import DATA_FRACTION, EXPRESSIVITY, LEARNING_SPEED, MEMORISATION
from neuronal.recipes.implicit_bias.kinds import LEARNED, LITE, TRANSFORMERS
from neuronal.recipes.implicit_bias.theory import BOUNDARY_2D, ENERGY

ABOUT = "Updating the standard neuron model in artificial neural networks (Mohedano, Bertalmío and others): what holds"

REPRODUCTIONS = (
    BOUNDARY_2D,
    DATA_FRACTION,
    PGD,
    PIXLE,
    EXPRESSIVITY,
    LEARNING_SPEED,
    MEMORISATION,
    TRANSFER,
    JACOBIAN,
    STEALTH,
    ENERGY,
    LITE,
    LEARNED,
    TRANSFORMERS,
)
