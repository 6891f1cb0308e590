"""scikit-learn estimators: texts in, labels, numbers or vectors out, in pipelines, cross-validation and grid searches.

X is a list, array or Series of texts, or of pairs of texts (two columns). Parameters have the names of
`clearhead.train` unless scikit-learn has a name of its own; None means the default of `train`.
"""

from __future__ import annotations

from importlib.util import find_spec

from clearhead.errors import MissingExtraError

if find_spec("sklearn") is None:
    raise MissingExtraError("An estimator for scikit-learn", "train")

from clearhead.estimators.encoder import TextEncoder
from clearhead.estimators.inputs import EstimatorError
from clearhead.estimators.trained import TextClassifier, TextRegressor

__all__ = ["EstimatorError", "TextClassifier", "TextEncoder", "TextRegressor"]
