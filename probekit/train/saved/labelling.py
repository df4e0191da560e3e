"""Run a saved head on new text, with the very steps that made its training rows."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from probekit.backbone import Backbone, as_given, load_again, read_arrays, tuned_backbone
from probekit.backbone.placement import DeviceMap
from probekit.base.kinds import KINDS, TOKENS
from probekit.base.notices import ProgressBar
from probekit.base.numbers import Ragged, bounds_of
from probekit.base.registry import PathName
from probekit.data.encoded import EncodedSplit, row_sources
from probekit.errors import OptionError, StateRangeError
from probekit.probe.heads.contract import HeadInput
from probekit.probe.heads.token_inputs import TextTokens, TokenStates
from probekit.probe.token_heads import token_head_from_json
from probekit.probe.token_heads.contract import TokenPool
from probekit.store.codec import READ_DTYPES
from probekit.tasks.conversations import conversation_text
from probekit.train.saved.head import NO_PROBABILITIES, Item, TrainedHead, as_examples

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

BATCH_TOKENS = 4096

T = TypeVar("T")

Conversation = Sequence[Mapping[str, Any]]
"""Messages, each with its role and content."""


@dataclass
class HeadReader:
    """Runs the backbone over encoded texts and gives a head its input."""

    head: TrainedHead
    backbone: Backbone
    encoded: EncodedSplit

    @cached_property
    def bounds(self) -> Int64[np.ndarray, " bounds"]:
        """Where the rows of each text begin, and where they end."""
        if self.head.of_tokens:
            return np.arange(len(self.encoded.ids) + 1)
        return bounds_of(self.encoded.rows[self.head.array])

    @cached_property
    def _pool(self) -> TokenPool | None:
        """What makes rows of tokens without having been trained."""
        value = self.head.saved.features.token_head
        if value is None:
            return None
        spec = token_head_from_json(value)
        columns = self.backbone.columns(self.head.point)
        return spec.build(len(self.head.layers), columns.stop - columns.start, torch.Generator())

    def read(self, start: int, stop: int) -> HeadInput:
        """Return the head's input for the examples ``start`` to ``stop`` (excluded).

        Raises:
            StateRangeError: a hidden state is not finite in the dtype of the head's cache.
        """
        encoded, bounds = self.encoded, self.bounds
        if self.head.reads != "tokens":
            rows = self.rows(self.head.array, start, stop)
            if not self.head.of_tokens:
                return rows
            return self.of_tokens(rows, bounds_of(encoded.rows[TOKENS][start:stop]))
        windows = slice(int(encoded.example_windows[start]), int(encoded.example_windows[stop]))
        return TokenStates.of(
            self.rows(TOKENS, start, stop)[:, 0],
            windows=encoded.window_lengths[windows].astype(np.int64),
            sources=self._sources.take(np.arange(bounds[start], bounds[stop])),
            starts=encoded.example_tokens[start:stop] - encoded.example_tokens[start],
            rows=np.diff(bounds[start : stop + 1]),
        )

    def of_tokens(
        self, rows: Float[Tensor, "tokens layers dim"], bounds: Int64[np.ndarray, " bounds"]
    ) -> HeadInput:
        """Return the head's input for texts whose tokens are some rows."""
        if self._pool is None:
            return TextTokens(states=rows, bounds=torch.from_numpy(bounds))
        pooled: Tensor = self._pool(rows.transpose(0, 1), torch.from_numpy(bounds))
        return pooled.transpose(0, 1)

    def rows(self, array: str, start: int, stop: int) -> Float[Tensor, "rows layers dim"]:
        """Return the rows of an array that examples have, as the head's cache would hold them."""
        features = self.head.saved.features
        rows = read_arrays(
            self.backbone,
            self.encoded,
            start,
            stop,
            layers={array: self.head.layers},
            pooling=features.pooling,
            batch_tokens=BATCH_TOKENS,
            dtype=READ_DTYPES[features.dtype],
        )[array]
        if not rows.isfinite().all():
            remedy = (
                "--dtype bfloat16" if features.dtype == "float16" else "--compute-dtype float32"
            )
            raise StateRangeError(
                f"{self.encoded.ids[start]} to {self.encoded.ids[stop - 1]}: a hidden state is not "
                f"finite, computed in {features.compute_dtype} and stored in {features.dtype} as "
                f"in this head's cache. Extract again with {remedy}, and train the head on that."
            )
        return rows[..., self.backbone.columns(self.head.point)]

    @cached_property
    def _sources(self) -> Ragged:
        """The subwords that make up each row, by the rule that training used."""
        return row_sources(self.encoded, self.head.array, self.head.saved.features.pooling)


_EXAMPLES = 256


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a head says of one text.

    Attributes:
        label: the label name of the text, or of each of its words; or the list of its labels.
        probabilities: of the classes by name, the most probable one first, for the text or for each
            of its words; see `TrainedHead.probabilities`.
    """

    label: str | list[str]
    probabilities: dict[str, float] | list[dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class TokenPrediction:
    """What a head says of one token of a text.

    Attributes:
        token: as the tokenizer writes it.
        label: the label name, the list of labels, or the number.
        probabilities: of the classes by name; empty of a number.
    """

    token: str
    label: Any
    probabilities: Mapping[str, float]


def predict(
    head: PathName | TrainedHead,
    texts: Sequence[Item | Conversation],
    *,
    probabilities: bool = False,
    model: "PathName | PreTrainedModel | None" = None,
    tokenizer: "PreTrainedTokenizerFast | None" = None,
    device: str = "auto",
    device_map: DeviceMap | None = None,
    progress: bool = False,
    trust_remote_code: bool = False,
) -> list[Any]:
    """Label new texts with a saved head.

    Rows are made as the cache made them: same windows, pooling and compute dtype, rounded to the
    stored dtype (except int8, whose scales belong to the cache's chunks). So the labels equal
    those of training-time scoring.

    Args:
        head: a saved head, or its folder.
        texts: as in the head's training: the words of a sentence (a list), a running text (a
            string), a pair of texts (two strings), or a conversation (a list of messages). A string
            is split at spaces where words are expected.
        probabilities: say how probable each class is, too.
        model: where the backbone is now, or the backbone in memory; ``None`` is where it was when
            the cache was made.
        tokenizer: of a model in memory.
        device: ``cpu``, ``cuda``, ``cuda:1``; ``auto`` is CUDA where there is some, else the CPU.
        device_map: in its place, for a model that does not fit on one; see `probekit.extract`.
        progress: show progress on stderr.
        trust_remote_code: run code that lies with the model.

    Returns:
        Per text, a label name for each word (tagging), one label name (sentence, pair), a list of
        label names (multilabel) or one number (regression); with ``probabilities`` a `Prediction`.

    Raises:
        MissingFileError: no head in that folder, or no model at that path.
        BackboneError: the model is not the one that the head was trained on.
        DataError: a text is no pair where one is expected, or a pair where none is; is not valid
            Unicode; or is too long under ``--overlong error``.
        OptionError: the head predicts tokens of a language model, or numbers where
            ``probabilities`` are asked for; or blocks cannot be laid out so.
        StateRangeError: a hidden state is not finite in the dtype that the cache stored.
    """
    trained = head if isinstance(head, TrainedHead) else TrainedHead.from_pretrained(head)
    if probabilities and KINDS[trained.kind].targets not in ("classes", "sets"):
        raise OptionError(NO_PROBABILITIES)
    reader = _reader(
        trained, texts, model, tokenizer, device, device_map, trust_remote_code=trust_remote_code
    )
    return _in_blocks(partial(_label, reader, probabilities=probabilities), len(texts), progress)


def predict_tokens(
    head: PathName | TrainedHead,
    texts: Sequence[Item | Conversation],
    *,
    model: "PathName | PreTrainedModel | None" = None,
    tokenizer: "PreTrainedTokenizerFast | None" = None,
    device: str = "auto",
    device_map: DeviceMap | None = None,
    progress: bool = False,
    trust_remote_code: bool = False,
) -> list[list[TokenPrediction]]:
    """Say what a head of whole texts finds in each token, read as if it were the whole text.

    These are the tokens that its rows are made of, each once; a label of the text need not be that
    of any token.

    Args, and errors but for those of ``probabilities``, are those of `predict`.

    Raises:
        OptionError: the head labels words, or reads the subwords of whole windows.
    """
    trained = head if isinstance(head, TrainedHead) else TrainedHead.from_pretrained(head)
    if KINDS[trained.kind].per != "text" or trained.reads == "tokens":
        of_tokens = trained.reads == "tokens"
        what = "reads the subwords of whole windows" if of_tokens else f"is for {trained.kind}"
        raise OptionError(
            "labels of single tokens need a head that labels whole texts by a row of them; this "
            f"one {what}. Predict without tokens."
        )
    reader = _reader(
        trained, texts, model, tokenizer, device, device_map, trust_remote_code=trust_remote_code
    )
    return _in_blocks(partial(_label_tokens, reader), len(texts), progress)


def _reader(
    trained: TrainedHead,
    texts: Sequence[Item | Conversation],
    model: "PathName | PreTrainedModel | None",
    tokenizer: "PreTrainedTokenizerFast | None",
    device: str,
    device_map: DeviceMap | None,
    *,
    trust_remote_code: bool,
) -> HeadReader:
    """Load a head's backbone, and tokenise texts as it read them; args are those of `predict`."""
    if KINDS[trained.kind].per == "span":
        raise OptionError(
            "this head labels spans of words, and plain texts do not say which: give a folder with "
            "labelled spans, and score it by `probekit train` with --start DIR --shots 0."
        )
    run = trained.run
    if run is not None and device_map is not None:
        raise OptionError(
            f"--device-map {device_map}: a model that was trained with its head (--method "
            f"{run.method}) runs on one device: give --device."
        )
    backbone = load_again(
        trained.saved.model,
        model=as_given(model, tokenizer, trained.saved.model["name"]),
        device=device,
        device_map=device_map,
        compute_dtype=trained.saved.features.compute_dtype,
        made="the head",
        trust_remote_code=trust_remote_code,
        learns=run is not None,
        quantize_for=None if run is None else run.quantize_for,
    )
    if run is not None:
        backbone = tuned_backbone(backbone, run)
    features, most = trained.saved.features, backbone.info.identity.max_length
    backbone.inspection.check_same_template(features.chat_template, "the head")
    # a conversation as its text, other texts as they are
    written = [conversation_text(text) or cast(Item, text) for text in texts]
    encoded = backbone.inspection.encode(
        as_examples(written, trained.text_kind),
        max_length=min(features.max_length or most, most),
        overlong=features.overlong,
        only=features.only,
        conversations=features.chat_template is not None,
    )
    of_rows = KINDS[trained.kind].per == "text" and trained.reads != "tokens"
    if of_rows and encoded.kept is None:  # a token that two windows show is one of its text
        encoded = replace(encoded, kept=encoded.once)
    return HeadReader(trained, backbone, encoded)


def _in_blocks(label: Callable[[int, int], list[T]], count: int, progress: bool) -> list[T]:
    """Return what is said of so many texts, some at a time, and show how many are done."""
    labelled: list[T] = []
    with ProgressBar(total=count, desc="predict", unit="text", shown=progress) as bar:
        for start in range(0, count, _EXAMPLES):
            stop = min(start + _EXAMPLES, count)
            labelled += label(start, stop)
            bar.report(stop - start)
    return labelled


def _label(reader: HeadReader, start: int, stop: int, probabilities: bool) -> list[Any]:
    """Return what a head says of each of the texts ``start`` to ``stop`` (excluded)."""
    head, z = reader.head, reader.read(start, stop)
    bounds = torch.from_numpy(reader.bounds[start : stop + 1] - reader.bounds[start])
    labels: list[Any]
    said: list[Any] = []
    if probabilities:
        labels, said = head.probabilities(z, bounds)
    else:
        labels = head.predict(z, bounds)
    if KINDS[head.kind].per == "word":
        texts = list(itertools.pairwise(bounds.tolist()))
        labels = [labels[first:last] for first, last in texts]
        said = [said[first:last] for first, last in texts]
    if not probabilities:
        return labels
    pairs = zip(labels, said, strict=True)
    return [Prediction(label=label, probabilities=by_name) for label, by_name in pairs]


def _label_tokens(reader: HeadReader, start: int, stop: int) -> list[list[TokenPrediction]]:
    """Return what a head says of each token of the texts ``start`` to ``stop`` (excluded)."""
    head, encoded = reader.head, reader.encoded
    rows = reader.rows(head.point.array(TOKENS), start, stop)
    # as if each were a whole text
    z = reader.of_tokens(rows, np.arange(len(rows) + 1)) if head.of_tokens else rows
    each = torch.arange(int(encoded.rows[TOKENS][start:stop].sum()) + 1)
    labels: Sequence[Any] = head.predict(z, each)
    said: list[dict[str, float]] = [{} for _ in labels]
    if head.labels:
        labels, said = head.probabilities(z, each)
    span = slice(int(encoded.example_tokens[start]), int(encoded.example_tokens[stop]))
    assert encoded.kept is not None, "the tokens of a reader are each there once"
    ids = encoded.subwords[span][encoded.kept[span]].tolist()
    decode = reader.backbone.inspection.text_tokenizer.decode
    names = [str(decode([number])) for number in ids]
    tokens = [
        TokenPrediction(token=name, label=label, probabilities=by_name)
        for name, label, by_name in zip(names, labels, said, strict=True)
    ]
    bounds = bounds_of(encoded.rows[TOKENS][start:stop]).tolist()
    return [tokens[first:last] for first, last in itertools.pairwise(bounds)]
