from .fit import Interrupted as Interrupted
from .fit import fit_group as fit_group
from .member import MemberSpec as MemberSpec
from .result import FitResult as FitResult
from .stream import StreamSpec as StreamSpec
