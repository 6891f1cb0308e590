"""A model that is ready to use: a runner, tokenizers, a head and a passport.

`load` and `create` make a `Model`; embedding, generation, alignment and description are functions of it.
"""

from __future__ import annotations

from clearhead.model.fill import Guess
from clearhead.model.loading import create, load
from clearhead.model.model import Model

__all__ = ["Guess", "Model", "create", "load"]
