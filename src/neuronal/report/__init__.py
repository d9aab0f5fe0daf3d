"""Records to what people look at: a table in the terminal, figures, one page."""
