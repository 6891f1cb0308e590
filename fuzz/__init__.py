"""Fuzzers: mutated models, data files and runs must be read correctly or rejected with one clear sentence."""
