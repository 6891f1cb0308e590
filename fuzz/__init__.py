"""Mutated model folders: whatever lies in one, the answer is a model or one clear sentence."""
