"""Pure functions on tensors: no modules, no state."""
