"""Pre-training data without torch: documents, sentences, shards of token ids, and the batches of each objective.

`pretrain` is the job that uses it. The package is below `training`, whose pre-training losses take its batches, and
`training` is below `pretrain`: merging it with `pretrain` would create an import cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.pretraining.baselines import Baseline, TokenCounts
    from clearhead.pretraining.batch import PretrainBatch
    from clearhead.pretraining.corpus_subset import CorpusSubset, split_held_out
    from clearhead.pretraining.documents import Chunk, Documents, find_corpus_files, make_absolute, read_chunks
    from clearhead.pretraining.example_spans import ExampleSpans, make_span_table, shuffle_positions
    from clearhead.pretraining.objective import PretrainObjective
    from clearhead.pretraining.registry import OBJECTIVES
    from clearhead.pretraining.sentences import split_sentences
    from clearhead.pretraining.shards import Corpus, hash_source, make_corpus
    from clearhead.pretraining.vocab_info import Masking, VocabInfo, read_vocab_info
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "baselines": ("Baseline", "TokenCounts"),
            "batch": ("PretrainBatch",),
            "corpus_subset": ("CorpusSubset", "split_held_out"),
            "documents": ("Chunk", "Documents", "find_corpus_files", "read_chunks", "make_absolute"),
            "example_spans": ("ExampleSpans", "make_span_table", "shuffle_positions"),
            "objective": ("PretrainObjective",),
            "registry": ("OBJECTIVES",),
            "sentences": ("split_sentences",),
            "shards": ("Corpus", "make_corpus", "hash_source"),
            "vocab_info": ("Masking", "VocabInfo", "read_vocab_info"),
        },
    )

__all__ = [
    "OBJECTIVES",
    "Baseline",
    "Chunk",
    "Corpus",
    "CorpusSubset",
    "Documents",
    "ExampleSpans",
    "Masking",
    "PretrainBatch",
    "PretrainObjective",
    "TokenCounts",
    "VocabInfo",
    "find_corpus_files",
    "hash_source",
    "make_absolute",
    "make_corpus",
    "make_span_table",
    "read_chunks",
    "read_vocab_info",
    "shuffle_positions",
    "split_held_out",
    "split_sentences",
]
