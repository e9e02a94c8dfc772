"""Find the labels that can be trusted, at an error rate you set.

>>> import kspr
>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(return_X_y=True)
>>> selection = kspr.KnockoffsSPR(q=0.05).fit(X, y).selection_
>>> len(selection.clean_indices) > 1000
True

The public names stand in ``__init__.pyi``, where type checkers read them. They are loaded when they
are first used: importing the package is quick, and imports neither NumPy nor torch.
"""

from importlib.metadata import version

import lazy_loader

__version__ = version("knockoffs-spr")
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]
