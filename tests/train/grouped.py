"""Members and streams made from single options, as specs take them, instead of whole groups."""

from dataclasses import fields

from probekit.train.member import MemberSpec
from probekit.train.option_groups import Descent, Steps
from probekit.train.stream import StreamSpec


def member_spec(**options):
    descent = taken(Descent, options)
    return MemberSpec(**options, descent=descent)


def stream_spec(**options):
    steps = taken(Steps, options)
    return StreamSpec(**options, steps=steps)


def taken(group, options):
    """The group of the options that are its own, which are taken out."""
    return group(**{f.name: options.pop(f.name) for f in fields(group) if f.name in options})
