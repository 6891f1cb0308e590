"""Measuring a trained model on rows whose labels are known.

`evaluate` gives metrics with intervals, `difference` compares two models on the same rows, and `examples` finds the
rows worth reading: the worst answers, suspicious labels and the words that mattered.
"""
