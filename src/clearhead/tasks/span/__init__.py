"""The answer to a question as a piece of a passage, or none: the task of SQuAD.

`rows` reads questions and passages, `decoding` turns token scores into answers, `metrics` scores them.
"""
