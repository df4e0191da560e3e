"""Prove that a model's states do not depend on their batch, or find batches in which they do not.

A mask keeps padding out of attention, but not out of convolutions, Fourier transforms or landmarks,
and some families look at the longest text of a batch. So every model is tried before it is used.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from probekit.backbone.facts import BackboneInfo, Inspection
from probekit.backbone.miniature import (
    LOWERED,
    draw_stand_in,
    length_thresholds,
    plain_ids,
    stand_in_configs,
)
from probekit.backbone.structure import embedding_rows
from probekit.base.fingerprint import digest
from probekit.base.notices import warn_once
from probekit.base.numbers import seeded
from probekit.data.batches import PADDED, Batching
from probekit.errors import BackboneError, reason_of

_LADDER = (129, 77, 38, 12)
"""Lengths that lie on both sides of every lowered threshold, and of what is made of it: BigBird's
sparse attention begins at eleven blocks."""

_SHORT = (7, 4)
"""Lengths below every threshold, lowered or not."""

_EXACT = 1e-4
"""Relative error of a row that counts as rounding, whatever the control."""

ROUNDING = {torch.float32: _EXACT, torch.float16: 3e-2, torch.bfloat16: 2e-1}
"""Largest relative error of a row between batches of one length, by compute dtype."""

_TIMES_CONTROL = 3.0

Layers = Callable[..., list[Float[Tensor, "batch time _"]]]
"""``Backbone.layers``: what is proven is what makes the rows."""

States = list[Float[Tensor, "time _"]]
"""Of one text, layer by layer."""

Text = Int64[Tensor, " _"]
"""The ids of one text."""

logger = logging.getLogger(__name__)
_found: dict[str, Batching] = {}


class _Unfit(BackboneError):
    """No batch at all gives states that could be stored."""


def prove_batching(
    inspection: Inspection,
    layers_of: Callable[[Inspection, PreTrainedModel], Layers],
    device: torch.device,
    dtype: torch.dtype,
) -> Batching:
    """Return in which batches a model's states are those of each text alone; say so if not in all.

    Stand-ins with random weights are tried, so that the model itself stays as it was, and once per
    process. Small ones will do: what mixes rows shows in two blocks.

    Args:
        inspection: the model.
        layers_of: makes a stand-in ready to run.
        device: where it will run.
        dtype: in which it will.

    Raises:
        BackboneError: it cannot run; its states have not a row per subword; or one text alone
            gives different states each time.
    """
    info = inspection.info
    alike = asdict(info.identity) | dict.fromkeys(("weights", "adapter", "method", "tuned"))
    key = digest([alike, str(device), str(dtype)])
    trouble: Exception
    longest = info.identity.max_length
    untried = () if key in _found else stand_in_configs(inspection.config, longest)
    for config in untried:  # until one can be built and run
        try:
            with seeded(0, device):
                stand_in = draw_stand_in(config, info.identity.quantize, device, dtype)
                small = _inspection_of(stand_in, config, inspection)
                trial = _Trial(small, stand_in.dtype, layers_of(small, stand_in))
                _found[key] = _verdict(inspection, trial)
            break
        except _Unfit:
            raise
        except Exception as error:  # each family has its own for what it cannot be or read
            trouble = error
    if key not in _found:
        if isinstance(trouble, BackboneError):
            raise trouble
        raise BackboneError(
            f"model {info.name!r} ({info.identity.architecture}) cannot run on a short input "
            f"({reason_of(trouble)}). Choose another model."
        ) from trouble
    if (batching := _found[key]) != PADDED:
        warn_once(logger, "%s", _describe(info, batching))
    return batching


def _inspection_of(
    stand_in: PreTrainedModel, config: PretrainedConfig, inspection: Inspection
) -> Inspection:
    """Return the inspection of a model with the configuration and the sizes of its stand-in."""
    blocks, rows = config.num_hidden_layers, embedding_rows(inspection.info.name, stand_in)
    info = replace(inspection.info, n_blocks=blocks, vocab_size=rows)
    structure = inspection.structure.with_blocks(blocks)
    return replace(inspection, info=info, config=config, structure=structure)


def _verdict(inspection: Inspection, trial: "_Trial") -> Batching:
    """Return in which batches the stand-in's states are those of each text alone."""
    info, longest = inspection.info, inspection.info.identity.max_length
    share = min(1.0, longest / _LADDER[0])
    ladder = trial.texts([math.ceil(length * share) for length in _LADDER])
    short = trial.texts([min(length, longest) for length in _SHORT])
    lowest = min(length_thresholds(inspection.config, longest), default=0)
    among_short = trial.padding_holds(short)
    if among_short and trial.padding_holds(ladder):
        return PADDED if trial.straddled else Batching(padded_to=lowest)
    if (error := trial.repeat_error(ladder)) > trial.rounding:
        raise _Unfit(
            f"model {info.name!r} ({info.identity.architecture}): the same text gives different "
            f"states each time ({error:.0%} apart), so they cannot be cached. Choose another "
            "model."
        )
    return Batching(
        padded_to=lowest if among_short else 0,
        alone=trial.company_error([*ladder, *short]) > trial.rounding,
    )


def _describe(info: BackboneInfo, batching: Batching) -> str:
    why = "the rest of the batch" if batching.alone else "padding"
    how = "one at a time" if batching.alone else "in batches of one length"
    which = f" of over {batching.padded_to} subwords" if batching.padded_to else ""
    return (
        f"model {info.name!r} ({info.identity.architecture}): {why} can change "
        f"its states, so texts{which} run {how}, which is slower."
    )


class _Trial:
    """Random texts, and how far their states in company are from those alone.

    Attributes:
        rounding: largest relative error of a row that is rounding.
        straddled: whether texts of a few times ``LOWERED`` lie beyond every length threshold.
    """

    def __init__(self, inspection: Inspection, dtype: torch.dtype, layers: Layers) -> None:
        info = inspection.info
        self._layers = layers
        self._usable = inspection.structure.usable
        self._types = info.identity.token_types
        self._pad_id = inspection.pad_id
        plain = plain_ids(info.vocab_size, inspection.config)
        ids = [number for number in plain if number != self._pad_id]
        self._ids = torch.tensor(ids or range(info.vocab_size))
        self.rounding = ROUNDING[dtype]
        thresholds = length_thresholds(inspection.config, info.identity.max_length)
        self.straddled = all(value <= LOWERED for value in thresholds)

    def texts(self, lengths: Sequence[int]) -> list[Text]:
        """Return a random text of each length."""
        return [self._ids[torch.randint(len(self._ids), (length,))] for length in lengths]

    def padding_holds(self, texts: Sequence[Text]) -> bool:
        """Say whether texts padded together have the states of each alone.

        They have if the error is rounding, or not above three times that of the control: each text
        beside another one of its length.
        """
        error = max(map(row_error, self._states(texts), self._alone(texts)))
        if error <= _EXACT:
            return True
        control = self.company_error(texts)
        return control <= self.rounding and error <= _TIMES_CONTROL * control

    def company_error(self, texts: Sequence[Text]) -> float:
        """Return the error of texts each of which runs beside another one of its length."""
        pairs = [self._states([text, *self.texts([len(text)])])[0] for text in texts]
        return max(map(row_error, pairs, self._alone(texts)))

    def repeat_error(self, texts: Sequence[Text]) -> float:
        """Return the error of texts each of which runs alone a second time."""
        return max(map(row_error, self._alone(texts), self._alone(texts)))

    def _alone(self, texts: Sequence[Text]) -> list[States]:
        return [self._states([text])[0] for text in texts]

    def _states(self, texts: Sequence[Text]) -> list[States]:
        """Return the states of each text of one batch, layer by layer.

        Where the model is told, the token types of each text's second half are 1.
        """
        lengths = [len(text) for text in texts]
        halves = [(torch.arange(length) >= length / 2).long() for length in lengths]
        pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
        ids = pad(list(texts), padding_value=self._pad_id)
        types = pad(halves) if self._types else None
        layers = self._layers(ids, torch.tensor(lengths), self._usable, types)
        return [[layer[row, :length] for layer in layers] for row, length in enumerate(lengths)]


def row_error(states: States, expected: States) -> float:
    """Return the largest relative error |a - b| / |b| of a row of any layer."""
    worst = 0.0
    for a, b in zip(states, expected, strict=True):
        size = torch.linalg.vector_norm(b.float(), dim=-1)
        if not size.isfinite().all():
            raise ArithmeticError("states of random weights are not finite")
        gap = torch.linalg.vector_norm(a.float() - b.float(), dim=-1)
        error = float((gap / size.clamp(min=torch.finfo(torch.float32).tiny)).max())
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return worst
