"""Whole jobs: a plan, a run that can be killed and resumed, and the use of what came out of it."""
