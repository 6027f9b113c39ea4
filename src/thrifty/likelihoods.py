"""Synthetic likelihoods for `th.SyntheticLikelihood`, by their public names.

Example:
    >>> th.SyntheticLikelihood(th.Uniform(0, 1), likelihood=th.likelihoods.Gaussian(shrinkage="auto")).how
    'surrogate'
"""

from thrifty.inference.synthetic_likelihood import Gaussian, SemiParametric

__all__ = ["Gaussian", "SemiParametric"]
