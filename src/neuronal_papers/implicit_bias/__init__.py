"""Mohedano, Bertalmío and others: Updating the standard neuron model in artificial neural networks."""

from neuronal_papers.implicit_bias.accuracy_curve import DATA_FRACTION, EXPRESSIVITY, LEARNING_SPEED, MEMORISATION
from neuronal_papers.implicit_bias.attacks import PGD, PIXLE
from neuronal_papers.implicit_bias.boundary_2d import BOUNDARY_2D
from neuronal_papers.implicit_bias.energy import ENERGY
from neuronal_papers.implicit_bias.jacobian import JACOBIAN, TRANSFER
from neuronal_papers.implicit_bias.stealth import STEALTH
from neuronal_papers.studies.implicit_bias_decay import DECAY
from neuronal_papers.studies.implicit_bias_kinds import LEARNED, LITE, TRANSFORMERS

ABOUT = "Updating the standard neuron model in artificial neural networks (Mohedano, Bertalmío and others): what holds"

FIGURES = (BOUNDARY_2D, DATA_FRACTION, PGD, PIXLE, EXPRESSIVITY, LEARNING_SPEED, MEMORISATION)
THEORY = (TRANSFER, JACOBIAN, STEALTH, ENERGY)
REPRODUCTIONS = (*FIGURES, DECAY, *THEORY, LITE, LEARNED, TRANSFORMERS)
