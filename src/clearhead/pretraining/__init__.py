"""Pre-training data without torch: documents, sentences, shards of token ids, and the batches of each objective.

`pretrain` is the job that uses it. The package lies below `training`, whose pre-training losses take its batches, and
`training` lies below `pretrain`: merged with `pretrain` the packages would import each other.
"""
