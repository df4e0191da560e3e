"""A trained head with its decoder and normalisation, ready to predict."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import Module

from probekit.backbone.saved_run import SavedRun
from probekit.base.kinds import ARRAYS, KINDS
from probekit.base.layers import ReadPoint
from probekit.base.plugins import trusting
from probekit.base.registry import PathName
from probekit.errors import OptionError, ProbekitError, RecordError, reason_of
from probekit.probe.decoders import Decoder, decoder_from_json
from probekit.probe.heads import head_from_json
from probekit.probe.heads.contract import FusionHead, HeadInput, Reads
from probekit.probe.heads.token_inputs import TextTokens, TokenStates
from probekit.probe.normalization import Normalization, normalization_from_json
from probekit.train.member import Probe, load_under
from probekit.train.saved.folder import SavedHead, damaged, read_saved
from probekit.train.scoring import keep_probabilities

NO_PROBABILITIES = (
    "this head predicts numbers, which have no probabilities; ask for the numbers alone."
)


class TrainedHead:
    """A trained head with its decoder and normalisation, ready to predict.

    Attributes:
        saved: what is known of it.
        state: the saved tensors: ``head.*``, ``decoder.*``, ``normalization.*``.
        layers: layers that ``predict`` wants along axis 1, ascending.
        labels: name of each class.
        run: what its run trained of the model, on disk; None where nothing was trained of it.
    """

    def __init__(
        self, saved: SavedHead, state: Mapping[str, Tensor], run: SavedRun | None = None
    ) -> None:
        """Rebuild the modules and load their tensors.

        Raises:
            UnknownNameError: it has a plug-in that is not known here.
            RuntimeError: the tensors are not those of the modules.
        """
        saved.recall_plugins()
        self.saved, self.state, self.run = saved, dict(state), run
        self.layers, self.labels = saved.layers, saved.labels
        if not saved.plugins:  # whose code may need values
            with torch.device("meta"):
                _check_shapes(_build(saved), state)
        parts = _build(saved)
        for prefix, module in parts.items():
            load_under(prefix, state, module)
        self._probe = Probe(parts["head."], parts["decoder."])
        self._normalization = parts["normalization."]
        self._probe.eval().requires_grad_(False)

    @classmethod
    def from_pretrained(cls, folder: PathName, *, trust_plugins: bool = False) -> Self:
        """Load the head that ``save_head`` wrote.

        Args:
            folder: where it was saved.
            trust_plugins: import a plug-in that is not known here by the path that the folder
                names, which runs whatever lies there.

        Raises:
            MissingFileError: the folder holds no saved head, or not what was trained of its model.
            OptionError: it predicts tokens, for which it needs the cache.
            RecordError: its files are damaged, or of a newer format.
            UnknownNameError: it has a plug-in that is not known here.
        """
        path = Path(folder)
        saved, state = read_saved(path)
        if KINDS[saved.features.kind].targets == "vocabulary":
            raise OptionError(
                f"{path}: this head predicts tokens with its backbone's output head, which stays "
                "in the cache; a run can start from it (--start), but it labels "
                "no text."
            )
        with trusting(trust_plugins):
            return cls.of_files(path, saved, state, SavedRun.at(path) if saved.backbone else None)

    @classmethod
    def of_files(
        cls, path: Path, saved: SavedHead, state: Mapping[str, Tensor], run: SavedRun | None = None
    ) -> Self:
        """Return the head of a folder that is read already.

        Args:
            path: the folder, for messages.
            saved: what is known of the head.
            state: its tensors.
            run: see the class.

        Raises:
            RecordError: its tensors are not what it says.
            UnknownNameError: it has a plug-in that is not known here.
        """
        try:
            return cls(saved, state, run)
        except ProbekitError:
            raise
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise RecordError(damaged(path, reason_of(error))) from None

    @property
    def kind(self) -> str:
        """What it predicts: labels of words, of whole texts, of pairs, or a number."""
        return self.saved.features.kind

    @property
    def text_kind(self) -> str:
        """What it reads, see `SavedHead.text_kind`."""
        return self.saved.text_kind

    @property
    def array(self) -> str:
        """The cache's array that its rows come from."""
        return self.saved.features.array

    @property
    def point(self) -> ReadPoint:
        """Where in each block its rows were taken."""
        return ReadPoint(ARRAYS[self.array].point, self.saved.features.attention_head)

    @property
    def of_tokens(self) -> bool:
        """Whether each of its rows is made of the tokens of a text, by a token head."""
        return self.reads == "texts" or self.saved.features.token_head is not None

    @property
    def config(self) -> dict[str, Any]:
        """Everything in ``config.json``."""
        return self.saved.to_json()

    @property
    def reads(self) -> Reads:
        """Whether it reads those rows, or the subwords that they are made of."""
        return self._probe.head.reads

    @property
    def modules(self) -> tuple[FusionHead, Decoder, Normalization]:
        """Head, decoder and normalisation, in evaluation mode; they are not to be changed."""
        return self._probe.head, self._probe.decoder, self._normalization

    def predict(
        self, z: HeadInput, offsets: Int64[Tensor, " bounds"] | None = None
    ) -> list[str] | list[list[str]] | list[float]:
        """Return the label name of each row, the names of its labels, or its number.

        Args:
            z: the hidden states of ``layers``, in that order, as the cache would hold them; or the
                subwords of whole windows, as ``reads`` says.
            offsets: bounds of the sentences within the rows; one sentence if not given.

        Raises:
            OptionError: states of other layers or another width.
        """
        treated, bounds = self._treat(z), _bounds(z, offsets)
        if bounds is None:
            return []
        return self._named(self._probe.predict(treated, bounds))

    def _named(self, predicted: Tensor) -> list[Any]:
        """Return what a decoder predicts of each row under the names of labels."""
        if predicted.ndim == 2:
            return [[*compress(self.labels, row)] for row in (predicted > 0).tolist()]
        if predicted.is_floating_point():
            return [float(value) for value in predicted]
        return [self.labels[number] for number in predicted.tolist()]

    @torch.no_grad()
    def probabilities(
        self, z: HeadInput, offsets: Int64[Tensor, " bounds"] | None = None
    ) -> tuple[list[str] | list[list[str]], list[dict[str, float]]]:
        """Return the label name or names of each row, and probabilities of its classes by name.

        The most probable class comes first. Of more than ``ALL_KEPT`` classes these are the
        ``TOP_KEPT`` most probable ones. Of a chain (CRF) they are the marginal probabilities of a
        word's tags, and its label is the tag on the best path, which need not come first.

        Args:
            z: as for `predict`.
            offsets: as for `predict`.

        Raises:
            OptionError: states of other layers or another width, or a head that predicts numbers.
        """
        if not self.labels:
            raise OptionError(NO_PROBABILITIES)
        treated, bounds = self._treat(z), _bounds(z, offsets)
        if bounds is None:
            return [], []
        logits, decoder = self._probe.evaluated(treated), self._probe.decoder
        log_p = decoder.log_probabilities(logits, bounds)
        assert log_p is not None, "a decoder of classes has probabilities"
        kept = keep_probabilities(log_p).ordered()
        assert kept.classes is not None
        pairs = zip(kept.classes.tolist(), kept.values.tolist(), strict=True)
        by_name = [
            {self.labels[number]: value for number, value in zip(*row, strict=True)}
            for row in pairs
        ]
        return self._named(decoder.predict(logits, bounds)), by_name

    def _treat(self, z: HeadInput) -> HeadInput:
        """Return the states in float32, each layer treated as in training."""
        if isinstance(z, TokenStates):
            rows = z.hidden.unsqueeze(1)
        else:
            rows = z.states if isinstance(z, TextTokens) else z
        n_layers, dim = rows.shape[1:]
        if (n_layers, dim) != (len(self.layers), self._probe.head.dim):
            raise OptionError(
                f"this head reads {len(self.layers)} layers of width {self._probe.head.dim}; "
                f"found {n_layers} layers of width {dim}."
            )
        rows = self._normalization(rows.transpose(0, 1).float().contiguous().transpose(0, 1))
        if isinstance(z, TokenStates):
            return replace(z, hidden=rows.squeeze(1))
        return replace(z, states=rows) if isinstance(z, TextTokens) else rows


def _build(saved: SavedHead) -> dict[str, Any]:
    """Return head, decoder and normalisation, by what the names of their tensors begin with."""
    dim, seed = saved.features.dim, torch.Generator()
    head = head_from_json(saved.head).build(saved.layers, dim, seed)
    decoder = decoder_from_json(saved.decoder).build(head.width, len(saved.labels), seed)
    normalization = normalization_from_json(saved.normalization, saved.layers, dim)
    return {"head.": head, "decoder.": decoder, "normalization.": normalization}


def _check_shapes(parts: Mapping[str, Module], state: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not those of the modules, before any memory is taken for these.

    Raises:
        ValueError: names one.
    """
    wanted = {
        f"{prefix}{name}": value.shape
        for prefix, module in parts.items()
        for name, value in module.state_dict().items()
    }
    for name in sorted(wanted.keys() | state.keys()):
        shape = state[name].shape if name in state else None
        if shape != wanted.get(name):
            said = _text(wanted.get(name))
            raise ValueError(f"{name} has shape {_text(shape)}, and config.json says {said}")


def _text(shape: torch.Size | None) -> str:
    return "none" if shape is None else "x".join(map(str, shape)) or "()"


def _bounds(
    z: HeadInput, offsets: Int64[Tensor, " bounds"] | None
) -> Int64[Tensor, " bounds"] | None:
    """Return the bounds of the sentences, one if none are given; None where there are no rows."""
    n_rows = len(z) if isinstance(z, Tensor) else z.n_rows
    if not n_rows:
        return None
    return torch.tensor([0, n_rows]) if offsets is None else offsets
