"""Translation: parallel data, training of a translator, and lines of text in and out.

`job` trains, `dataset` reads pairs of sentences, `translator` makes the model, `evaluate` counts BLEU and chrF, and
`stream` translates line by line and continues where it stopped; `generate` does the same for prompts.
"""
