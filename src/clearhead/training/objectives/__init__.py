"""Objectives: values that turn what a network answers for a batch into a loss per row."""
