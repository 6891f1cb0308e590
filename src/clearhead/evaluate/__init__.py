"""Measuring a trained folder on labeled rows: metrics, paired differences and error examples."""
