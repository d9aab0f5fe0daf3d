"""What the neurons cost, each beside the plain torch layer in the same run: ``python -m benchmarks SUITE``."""
