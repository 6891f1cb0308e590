"""Training on labeled rows: fine-tuning and the other methods, baselines, the end of a run and its report."""
