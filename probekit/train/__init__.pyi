from .fit import Interrupted, fit_group
from .member import MemberSpec
from .result import FitResult
from .stream import StreamSpec

__all__ = [
    "FitResult",
    "Interrupted",
    "MemberSpec",
    "StreamSpec",
    "fit_group",
]
