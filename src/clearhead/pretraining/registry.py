"""All objectives by name, and the default objective of each family."""

from __future__ import annotations

from clearhead.pretraining.bidirectional import BIDIRECTIONAL
from clearhead.pretraining.masking import MASKED_TOKENS
from clearhead.pretraining.next_sentence import NEXT_SENTENCE
from clearhead.pretraining.next_token import NEXT_TOKEN
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.replaced_tokens import REPLACED_TOKENS
from clearhead.pretraining.sentence_order import SENTENCE_ORDER
from clearhead.pretraining.span_corruption import SPAN_CORRUPTION

OBJECTIVES: dict[str, PretrainObjective] = {
    one.name: one
    for one in (
        NEXT_SENTENCE,
        MASKED_TOKENS,
        SENTENCE_ORDER,
        REPLACED_TOKENS,
        NEXT_TOKEN,
        BIDIRECTIONAL,
        SPAN_CORRUPTION,
    )
}
DEFAULT_OBJECTIVES = {
    "bert": "mlm+nsp",
    "albert": "mlm+sop",
    "electra": "rtd",
    "gpt2": "clm",
    "openai-gpt": "clm",
    "elmo": "bilm",
    "t5": "span-corruption",
    "marian": "span-corruption",
    "transformer": "span-corruption",
    "rnn": "span-corruption",
}
