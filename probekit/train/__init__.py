"""Training from the cache: samples, order, groups of heads side by side, saved heads."""

from probekit.train.fit import Interrupted, fit_group
from probekit.train.member import MemberSpec
from probekit.train.result import FitResult
from probekit.train.stream import StreamSpec

__all__ = ["FitResult", "Interrupted", "MemberSpec", "StreamSpec", "fit_group"]
