"""Classic methods: TF-IDF, linear models and the majority class; fitted by scikit-learn, predicted in plain numpy."""

from clearhead.classic.linear import Linear, fit_linear, fit_probe
from clearhead.classic.majority import Majority, fit_majority
from clearhead.classic.mixture import Mixture, fit_mixture, mixture_weights
from clearhead.classic.model import ClassicModel, load_classic, save_classic
from clearhead.classic.sparse import Sparse
from clearhead.classic.tfidf import Tfidf, TfidfSettings, fit_tfidf

__all__ = [
    "ClassicModel",
    "Linear",
    "Majority",
    "Mixture",
    "Sparse",
    "Tfidf",
    "TfidfSettings",
    "fit_linear",
    "fit_majority",
    "fit_mixture",
    "fit_probe",
    "fit_tfidf",
    "load_classic",
    "mixture_weights",
    "save_classic",
]
