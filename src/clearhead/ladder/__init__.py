"""The ladder: several methods on the same rows within a time budget, and a recommendation."""
