"""stoker: from bare GPU server to trained PyTorch model.

Importing this package is light; torch is imported when training is asked for.
"""

from stoker._version import __version__

__all__ = ["__version__"]
