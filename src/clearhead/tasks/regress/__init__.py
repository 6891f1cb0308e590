"""One text or two, a number: how similar, how urgent, how many stars."""
