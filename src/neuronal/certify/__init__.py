"""Statements about a network, each with the evidence for it."""
