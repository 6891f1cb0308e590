"""Clearhead: from the text you have to a language model you understand, can trust and can afford to run."""
