"""Every objective by its name, and the one that each family was made for."""

from __future__ import annotations

from clearhead.pretraining.bidirectional import BOTH_WAYS
from clearhead.pretraining.masking import MASKED
from clearhead.pretraining.next_sentence import NEXT_SENTENCE
from clearhead.pretraining.next_token import NEXT_WORD
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.replaced_tokens import REPLACED
from clearhead.pretraining.sentence_order import SENTENCE_ORDER
from clearhead.pretraining.span_corruption import SPANS

OBJECTIVES: dict[str, PretrainObjective] = {
    one.name: one for one in (NEXT_SENTENCE, MASKED, SENTENCE_ORDER, REPLACED, NEXT_WORD, BOTH_WAYS, SPANS)
}
USUAL = {
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
