"""What users import: the estimators and the `Selection` that they return.

The names stand in ``__init__.pyi``. They are loaded when they are first used, so that the command
line can show the options of a selector without NumPy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
