"""How each operation of torch becomes steps: one table per kind of step."""
