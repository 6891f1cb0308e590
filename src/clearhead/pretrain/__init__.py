"""Pre-training on plain text, from files to a model folder with its card and report.

`job` runs it, `plan` and `config` hold the choices, `data` cuts the text, `model` makes or loads the network, and
`held_out` measures it beside unigram and bigram. The batches come from `pretraining`.
"""
