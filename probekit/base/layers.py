"""Layer numbers, and the points of a block where states are taken.

Layer ``i`` is HuggingFace's ``hidden_states[i]``: 0 is the embeddings, 1..L the block outputs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from probekit.base.registry import choose
from probekit.errors import OptionError

Value = TypeVar("Value")

RESID_POST = "resid_post"
"""The point that every model has, and every layer: the residual stream."""

POINTS: Mapping[str, str] = {
    RESID_POST: "the residual stream after a block, which is hidden_states",
    "attn_out": "what attention adds to the residual stream",
    "mlp_out": "what the feed-forward part adds to it",
    "mlp_act": "what the last linear layer of the feed-forward part reads: its neurons",
    "z": "what the last linear layer of attention reads: the outputs of its heads",
}
"""Where in a block states are taken, and what is there."""

ALIASES_OF_POINTS: Mapping[str, str] = {
    "hook_resid_post": RESID_POST,
    "hook_attn_out": "attn_out",
    "hook_mlp_out": "mlp_out",
    "mlp.hook_post": "mlp_act",
    "attn.hook_z": "z",
    "layers_output": RESID_POST,
    "attentions_output": "attn_out",
    "mlps_output": "mlp_out",
}
"""What TransformerLens (``hook_``) and nnterp (``_output``) call points."""


def array_at(array: str, point: str) -> str:
    """Return the name of an array at a point: ``words`` of the residual stream, ``words.z``."""
    return array if point == RESID_POST else f"{array}.{point}"


def typed_layers(layers: str | int | Iterable[int]) -> str:
    """Return layers as the command line writes them: of -1 ``"-1"``, of [0, 4] ``"0,4"``."""
    if isinstance(layers, str):
        return layers
    return ",".join(map(str, layers if isinstance(layers, Iterable) else [layers]))


def parse_layers(text: str, n_blocks: int) -> tuple[int, ...]:
    """Return the layers that ``text`` names, ascending, each once.

    Args:
        text: comma-separated items; each is ``all``, a layer number, or a slice
            ``start:stop:step`` with Python's meaning (stop excluded). Negative numbers count
            from the end, so ``-1`` is layer L.
        n_blocks: L, the number of transformer blocks; layers run from 0 to L.

    Raises:
        OptionError: an item is malformed, out of range, or selects nothing.
    """
    count = n_blocks + 1
    chosen: set[int] = set()
    for item in text.split(","):
        picked = _layer_range(item.strip(), count, text)
        if not picked:
            raise OptionError(
                f"layers {text!r}: {item.strip()!r} selects no layer of 0..{n_blocks}."
            )
        chosen.update(picked)
    return tuple(sorted(chosen))


def _layer_range(item: str, count: int, text: str) -> range:
    if item == "all":
        return range(count)
    try:
        numbers = [int(part) if part.strip() else None for part in item.split(":")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or numbers == [None] or (len(numbers) == 3 and numbers[2] == 0):
        raise OptionError(
            f"layers {text!r}: cannot read {item!r}. Write 'all', a number such as '-1', "
            "a list '0,4,8' or a slice '0:25:4'."
        )
    if len(numbers) > 1:
        for bound in numbers[:2]:
            if bound is not None and not -count <= bound <= count:
                raise OptionError(
                    f"layers {text!r}: {bound} is outside this model's layers 0 (embeddings) "
                    f"to {count - 1} (a slice may stop at {count})."
                )
        return range(count)[slice(*numbers)]
    number = numbers[0]
    assert number is not None
    if not -count <= number < count:
        raise OptionError(
            f"layers {text!r}: layer {number} does not exist; this model has layers "
            f"0 (embeddings) to {count - 1}."
        )
    return range(number % count, number % count + 1)


def up_to_depth(layers: tuple[int, ...], depth: int) -> tuple[int, ...]:
    """Cut a head's layers to the first ``depth`` blocks.

    Returns the layers that are at most ``depth``; when none is left, layer ``depth`` itself
    (so ``last`` at depth n reads layer n, and every head at depth 0 reads the embeddings).
    """
    return tuple(layer for layer in layers if layer <= depth) or (depth,)


_STRIDE = 1_000
"""Added to a layer's number for each point, in a head over several: ``attn_out`` 3 is 1003.

The residual stream comes last there (5003), so that a head's last layer is the model's.
"""

_PLACES = (*[point for point in POINTS if point != RESID_POST], RESID_POST)
"""By the thousands of a number, from 1 on."""

LAYER_NUMBERS = _STRIDE * (len(_PLACES) + 1)
"""No layer has a number that is as large."""

NO_BLOCK = "Layer 0, the embeddings, belongs to no block. Choose layers from 1 on."


def point_layer(point: str, layer: int) -> int:
    """Return the number of a layer among the layers of several points."""
    return _STRIDE * (_PLACES.index(point) + 1) + layer


def is_joined(number: int) -> bool:
    """Say whether a layer's number is one among the layers of several points."""
    return _STRIDE <= number < LAYER_NUMBERS


def point_of(number: int) -> tuple[str, int]:
    """Return the point that a layer's number is of, and the layer as blocks are counted."""
    if not is_joined(number):
        return RESID_POST, number
    place, layer = divmod(number, _STRIDE)
    return _PLACES[place - 1], layer


def by_point(values: Mapping[int, Value]) -> dict[str, dict[int, Value]]:
    """Return values by layer grouped by point, with layers as blocks are counted."""
    found: dict[str, dict[int, Value]] = {}
    for number, value in values.items():
        point, layer = point_of(number)
        found.setdefault(point, {})[layer] = value
    return found


def parse_points(names: Iterable[str]) -> tuple[str, ...]:
    """Return points by their names here, each once, in the order of ``POINTS``.

    Args:
        names: of points; those of ``ALIASES_OF_POINTS`` are understood.

    Raises:
        UnknownNameError: there is no such point.
    """
    asked = [ALIASES_OF_POINTS.get(name, name) for name in names]
    for name in asked:
        choose("point", name, POINTS)
    return tuple(name for name in POINTS if name in asked)


@dataclass(frozen=True)
class ReadPoint:
    """The point whose rows are read, or one attention head of it; or several points.

    Attributes:
        name: one of ``POINTS``; of several points, their names with ``+`` between them.
        attention_head: its number, from 0; None is the whole width.
    """

    name: str = RESID_POST
    attention_head: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> "ReadPoint":
        """Read ``attn_out``, ``z:head=3`` or ``resid_post+attn_out``; None is the residual stream.

        Raises:
            OptionError: the option of a point is not the number of a head of ``z``.
            UnknownNameError: there is no such point.
        """
        if text and "+" in text:
            return cls("+".join(parse_points([name.strip() for name in text.split("+")])))
        name, _, option = (text or RESID_POST).partition(":")
        (point,) = parse_points([name.strip()])
        number = option.removeprefix("head=")
        if not option:
            return cls(point)
        if point != "z" or number == option or not (number.isascii() and number.isdigit()):
            raise OptionError(
                f"--point {text}: expected a point, or z:head=N for attention head N, such as "
                "z:head=3."
            )
        return cls(point, int(number))

    def __str__(self) -> str:
        """Return what `parse` reads."""
        return (
            self.name if self.attention_head is None else f"{self.name}:head={self.attention_head}"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The points, in the order of ``POINTS``."""
        return tuple(self.name.split("+"))

    @property
    def joined(self) -> bool:
        """Whether it is several points."""
        return len(self.names) > 1

    @property
    def has_embeddings(self) -> bool:
        """Whether layer 0 is one of its layers."""
        return RESID_POST in self.names

    def array(self, name: str) -> str:
        """Return the array at this point that has the rows of one of the residual stream.

        Of several points it is that of the last, which fewer entries hold than the stream's.
        """
        return array_at(name, self.names[-1])

    def arrays(self, name: str) -> dict[str, str]:
        """Return by point the array that has the rows of one of the residual stream."""
        return {point: array_at(name, point) for point in self.names}

    def layers(self, layers: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of layers at this point, or at all of several points.

        The embeddings are a layer of the residual stream alone.
        """
        if not self.joined:
            return tuple(layers)
        numbers = (
            point_layer(point, layer)
            for point in self.names
            for layer in layers
            if layer or point == RESID_POST
        )
        return tuple(sorted(numbers))

    def columns(self, width: int, n_heads: int | None, where: str) -> slice:
        """Return which columns of a width are read.

        Args:
            width: of all attention heads, side by side.
            n_heads: how many they are; None if they are not known to be of one width.
            where: whose they are, for messages.

        Raises:
            OptionError: there is no such head.
        """
        if self.attention_head is None:
            return slice(0, width)
        if n_heads is None or self.attention_head >= n_heads:
            has = f"heads 0 to {n_heads - 1}" if n_heads else "no attention heads of equal width"
            raise OptionError(f"--point {self}: {where} has {has}.")
        each = width // n_heads
        return slice(self.attention_head * each, (self.attention_head + 1) * each)


STREAM = ReadPoint()
"""The residual stream."""
