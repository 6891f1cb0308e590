"""Former names of the classes of `model_handle`, so that pickles of estimators written by version 0.1 can be read."""

from clearhead.estimators.model_handle import ModelHandle as Loaded
from clearhead.estimators.model_handle import TrainedFolder as Kept

__all__ = ["Kept", "Loaded"]
