"""Model families, one module each: config.json to Shape, Hugging Face tensor names, heads. Needs no torch."""

from __future__ import annotations

from clearhead.errors import ConfigError
from clearhead.families import (
    albert,
    bert,
    deberta,
    distilbert,
    electra,
    elmo,
    gpt,
    marian,
    modernbert,
    mpnet,
    rnn,
    roberta,
    t5,
    transformer,
)
from clearhead.families.family import ConfigValues, Family, TensorTarget, name_table, parse_config_option

FAMILIES: dict[str, Family] = {
    family.model_type: family
    for family in (
        bert.FAMILY,
        roberta.FAMILY,
        roberta.XLM_R,
        distilbert.FAMILY,
        electra.FAMILY,
        albert.FAMILY,
        mpnet.FAMILY,
        deberta.FAMILY,
        modernbert.FAMILY,
        gpt.GPT1,
        gpt.GPT2,
        t5.FAMILY,
        marian.FAMILY,
        transformer.FAMILY,
        rnn.FAMILY,
        elmo.FAMILY,
    )
}


def family_of(model_type: object) -> Family:
    """Return the family for the `model_type` of a config.json."""
    if isinstance(model_type, str) and model_type in FAMILIES:
        return FAMILIES[model_type]
    known_types = ", ".join(FAMILIES)
    if model_type is None:
        raise ConfigError(
            "config.json has no model_type, and it cannot be inferred from the architectures or tensor names. "
            f"Set one of {known_types}."
        )
    raise ConfigError(
        f"config.json has the unsupported model_type {str(model_type)[:60]!r}. Supported types: {known_types}."
    )


__all__ = ["FAMILIES", "ConfigValues", "Family", "TensorTarget", "family_of", "name_table", "parse_config_option"]
