"""What ``neuronal bench`` times, always against the plain torch layer in the same run."""
