"""Training with torch: the loop as a generator of steps, objectives, the optimizer, and a state that survives a kill.

A step takes an objective (`objectives/`), a value that gives each row of a batch its loss. Fine-tuning (`loop.py`) and
pre-training (`pretrain_loop.py`) share one step: accumulation, clipping, the check for divergence.
"""
