"""What the neurons cost on a GPU, each beside the plain thing in the same run."""
