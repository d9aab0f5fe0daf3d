"""Our layers in tests and programs that others wrote for torch's."""
