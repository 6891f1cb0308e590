"""Pre-training on plain text: plan, data, model, held-out scores, model card and report."""
