"""Architectures, written once as functions of the neuron family."""

from neuronal.models.registry import create_model, is_model, list_models, register_model

__all__ = ["create_model", "is_model", "list_models", "register_model"]
