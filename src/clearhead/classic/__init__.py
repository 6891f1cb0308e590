"""Classic methods: TF-IDF, linear models and the majority class; fitted by scikit-learn, applied in numpy."""

from clearhead.classic.linear import LinearModel, fit_linear, fit_probe
from clearhead.classic.majority import MajorityModel, fit_majority
from clearhead.classic.mixture import ScalarMix, fit_scalar_mix, scalar_mix_weights
from clearhead.classic.model import ClassicModel, load_classic, save_classic
from clearhead.classic.sparse import SparseRows
from clearhead.classic.tfidf import Tfidf, TfidfSettings, fit_tfidf

__all__ = [
    "ClassicModel",
    "LinearModel",
    "MajorityModel",
    "ScalarMix",
    "SparseRows",
    "Tfidf",
    "TfidfSettings",
    "fit_linear",
    "fit_majority",
    "fit_probe",
    "fit_scalar_mix",
    "fit_tfidf",
    "load_classic",
    "save_classic",
    "scalar_mix_weights",
]
