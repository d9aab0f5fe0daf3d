"""Architectures, written once as functions of the neuron family."""

from neuronal.models.classifier import Classifier
from neuronal.models.registry import create_model, is_model, list_models, register_model

__all__ = ["Classifier", "create_model", "is_model", "list_models", "register_model"]
