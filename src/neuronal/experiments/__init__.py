"""Experiments are declared, not scripted: Recipe -> run -> Record -> compare -> Comparison."""
