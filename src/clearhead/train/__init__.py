"""Training on labeled rows: from a table to a measured model folder with its report.

`job` runs it, `methods` fits one of fine-tuning, head, frozen features, TF-IDF and majority, `baselines` and
`method_choice` compare it with cheaper ones, and `finish` calibrates, measures and saves.
"""
