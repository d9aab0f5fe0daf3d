"""One measurement of a trained network per file; each takes (model, split) and returns plain numbers."""
