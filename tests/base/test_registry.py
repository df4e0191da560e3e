"""Plug-ins written as text: NAME:option=value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from probekit.base.registry import normal_form, parse
from probekit.errors import OptionError, UnknownNameError
from probekit.probe.decoders import DECODERS
from probekit.probe.heads import HEADS


@dataclass(frozen=True, kw_only=True)
class Plug:
    size: int = 3
    rate: float = 0.5
    fast: bool = False
    how: Literal["own", "new"] = "own"
    label: str = "x"
    depth: int | None = None
    facts: Mapping[str, Any] | None = None
    found: str = field(default="", init=False)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise OptionError(f"plug: size must be positive, found {self.size}.")


@dataclass(frozen=True, kw_only=True)
class Bare:
    pass


PLUGS = {"plug": Plug, "bare": Bare}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plug", Plug()), ("bare", Bare()), ("plug:size=7", Plug(size=7)),
        ("plug:rate=1e-3:fast=true", Plug(rate=1e-3, fast=True)), ("plug:rate=1", Plug(rate=1.0)),
        ("plug:fast=False:how=new", Plug(how="new")), ("plug:label=a=b", Plug(label="a=b")),
        ("plug:depth=2", Plug(depth=2)), ("plug:depth=none", Plug()),
        ("plug: size = 4", Plug(size=4)),
    ],
)  # fmt: skip
def test_reads(text: str, expected: object) -> None:
    found = parse("plug", text, PLUGS)
    assert found == expected
    assert [*map(type, vars(found).values())] == [*map(type, vars(expected).values())]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plug:colour=1", r"no option 'colour=1'.*size \(a whole number\), rate \(a number\)"),
        ("plug:size", "no option 'size'.*OPTION=VALUE"), ("plug:", "no option ''"),
        ("plug:facts=1", "no option 'facts=1'"), ("plug:found=1", "no option 'found=1'"),
        ("bare:size=1", "has no options"), ("plug:size=1:size=2", "twice"),
        ("plug:size=1.5", "size must be a whole number; found '1.5'"),
        ("plug:rate=much", "rate must be a number"), ("plug:fast=1", "fast must be true or false"),
        ("plug:how=old", "how must be own or new"),
        ("plug:depth=x", "depth must be a whole number or none"),
        ("plug:size=0", "size must be positive"),
    ],
)  # fmt: skip
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse("plug", text, PLUGS)


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="plug"):
        parse("plug", "plugg:size=1", PLUGS)


@pytest.mark.parametrize(("kind", "registry"), [("head", HEADS), ("decoder", DECODERS)])
def test_every_plug_in_is_read_by_its_name(kind: str, registry: Mapping[str, Any]) -> None:
    for name, make in registry.items():
        assert parse(kind, name, registry) == make()
        with pytest.raises(OptionError, match="colour"):
            parse(kind, f"{name}:colour=1", registry)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plug", "plug"),
        ("plug:size=4", "plug:size=4"),
        ("plug: size = 4:fast=FALSE", "plug:size=4"),
        ("plug:rate=1.50:size=4", "plug:size=4:rate=1.5"),
        ("plug:rate=0.0", "plug:rate=0"),
        ("plug:fast=true:how=new", "plug:fast=true:how=new"),
    ],
)
def test_one_plug_in_has_one_text(text: str, expected: str) -> None:
    assert normal_form("plug", text, PLUGS) == expected
    assert parse("plug", expected, PLUGS) == parse("plug", text, PLUGS)
