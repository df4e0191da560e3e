"""A trained head with its decoder and normalisation, ready to predict, and what it is given.

It is given sentences in words, running texts, or pairs of texts: as values, as lines of running
text, or in a table that ``extract`` reads too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import Module

from probekit.backbone.saved_run import SavedRun
from probekit.base.kinds import ARRAYS, KINDS, Kind
from probekit.base.layers import ReadPoint
from probekit.base.plugins import trusting
from probekit.base.registry import PathName
from probekit.errors import DataError, OptionError, ProbekitError, RecordError, reason_of
from probekit.probe.decoders import Decoder, decoder_from_json
from probekit.probe.heads import head_from_json
from probekit.probe.heads.contract import FusionHead, HeadInput, Reads
from probekit.probe.heads.token_inputs import TextTokens, TokenStates
from probekit.probe.normalization import Normalization, normalization_from_json
from probekit.tasks import Example, TextOptions
from probekit.tasks.assemble import check_text
from probekit.tasks.formats.text_lines import RUNNING, decode_lines, format_of, read_bytes
from probekit.tasks.formats.word_columns import DOCUMENT_START
from probekit.tasks.task import Choice
from probekit.tasks.user_files import FORMATS, read_own
from probekit.train.member import Probe, load_under
from probekit.train.saved.folder import SavedHead, damaged, read_saved
from probekit.train.scoring import keep_probabilities

Item = str | Sequence[str]
COLUMNS = {"text", "separator", "sentences"}
"""Options that say that a file has columns."""

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
        treated, bounds = self._treat(z, offsets)
        return self._named(self._probe.predict(treated, bounds)) if bounds[-1] else []

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
        treated, bounds = self._treat(z, offsets)
        if not bounds[-1]:
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

    def _treat(
        self, z: HeadInput, offsets: Int64[Tensor, " bounds"] | None
    ) -> tuple[HeadInput, Int64[Tensor, " bounds"]]:
        """Return states in float32, each layer treated as in training, and bounds of sentences."""
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
        bounds = torch.tensor([0, len(z) if isinstance(z, Tensor) else z.n_rows])
        rows = self._normalization(rows.transpose(0, 1).float().contiguous().transpose(0, 1))
        treated: HeadInput = rows
        if isinstance(z, TokenStates):
            treated = replace(z, hidden=rows.squeeze(1))
        elif isinstance(z, TextTokens):
            treated = replace(z, states=rows)
        return treated, bounds if offsets is None else offsets


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
    found = {name: value.shape for name, value in state.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if found.get(name) != wanted.get(name):
            shapes = [str([*of[name]]) if name in of else "none" for of in (found, wanted)]
            raise ValueError(f"{name} has shape {shapes[0]}, and config.json says {shapes[1]}")


def as_examples(texts: Sequence[Item], kind: str) -> list[Example]:
    """Return texts as examples of the kind that the head was trained on.

    Args:
        texts: as ``predict`` takes them.
        kind: what the head reads: ``tagging`` for texts in words, ``sentence``, ``pair``, or
            ``regression`` where it is not known whether that is one text or two.

    Raises:
        DataError: a text is no pair where one is expected, is a pair or a list of words where a
            running text is, or single texts and pairs are mixed.
    """
    examples = [_example(f"text-{n}", text, KINDS[kind]) for n, text in enumerate(texts, 1)]
    for example in examples:
        if (example.text_pair is None) != (examples[0].text_pair is None):
            raise DataError(
                f"{example.id}: single texts and pairs are mixed; a head labels one or the other, "
                "depending on how it was trained."
            )
    return examples


def _example(name: str, item: Item, kind: Kind) -> Example:
    if kind.per == "word":
        words = [word for word in item.split(" ") if word] if isinstance(item, str) else item
        return Example(id=name, words=tuple(words))
    if isinstance(item, str):
        if 1 not in kind.texts:
            raise DataError(f"{name}: this head labels pairs of texts; found one text, {item!r}.")
        return Example(id=name, text=item)
    if 2 not in kind.texts:
        raise DataError(
            f"{name}: this head labels single texts; found {len(item)} in a list. Give a string."
        )
    if len(item) != 2:
        raise DataError(f"{name}: expected a pair of texts; found {len(item)} texts.")
    return Example(id=name, text=item[0], text_pair=item[1])


def read_items(lines: Sequence[str], kind: str) -> list[Item]:
    """Turn lines of text into what ``predict`` takes; blank lines are left out.

    Args:
        lines: one text per line; the two texts of a pair lie apart by a TAB.
        kind: what the head reads: tagging splits words at single spaces.

    Raises:
        DataError: there is no text at all, a line of a pair has no TAB or several, or a line of a
            single text or of words has one.
    """
    of = KINDS[kind]
    items: list[Item] = []
    for number, line in enumerate(lines, 1):
        texts = line.strip("\r\n").split("\t")
        if not line.strip():
            continue
        if of.per == "word":
            if "\t" in line.strip():  # which a table would take for the end of a word
                raise DataError(
                    f"line {number} has a TAB; give one sentence per line, with spaces between "
                    "words."
                )
            items.append([word for word in line.strip().split(" ") if word])
        elif len(texts) in of.texts:
            items.append(texts[0] if len(texts) == 1 else tuple(texts))
        else:
            wanted = "single texts" if of.texts == (1,) else "pairs of texts"
            raise DataError(
                f"line {number}: this head labels {wanted}, and a TAB separates the two texts of a "
                f"pair; found {len(texts)}."
            )
    if not items:
        raise DataError("there is no text to label; give one per line.")
    return items


def file_items(path: Path, head: TrainedHead, options: TextOptions) -> list[Item]:
    """Return what a file holds, as ``predict`` takes it.

    What ``extract`` reads as a table is read so here, and its labels are left out: as the text
    was read that the head was trained on, or else as the file itself shows. A ``.txt`` file is
    running text, unless an option says that it has columns; any other file is running text.

    Args:
        path: the file.
        head: what labels it.
        options: how the user's own data is read.

    Raises:
        MissingFileError: there is no such file.
        DataError: it holds no text of the kind that the head reads.
        OptionError: it is not clear which column holds the text.
    """
    if format_of(path) in FORMATS - {RUNNING} or COLUMNS & options.given.keys():
        try:
            return _table_items(path, head, options.or_as(head.saved.read))
        except (DataError, OptionError):
            if not head.saved.read:
                raise
            return _table_items(path, head, options)
    return line_items(read_bytes(path), str(path), head, options)


def line_items(raw: bytes, where: str, head: TrainedHead, options: TextOptions) -> list[Item]:
    """Return a text per line, as ``predict`` takes it.

    Args:
        raw: the text, encoded.
        where: what it is, for messages.
        head: what labels it.
        options: what was typed of it.

    Raises:
        DataError: it is not UTF-8, is no text of the kind that the head reads, or is
            JSON or a CoNLL file.
        OptionError: an option is for columns.
    """
    options.refuse(COLUMNS, f"{where}, which has a text per line")
    lines = decode_lines(raw, where)
    filled = [line for line in lines if line.strip()]
    if filled and all(line.startswith("{") and line.rstrip().endswith("}") for line in filled):
        raise DataError(f"{where} holds JSON objects, but plain text is expected; name it .jsonl.")
    if any(line.startswith(DOCUMENT_START) for line in filled):
        raise DataError(
            f"{where} holds words and their labels in columns, but plain text is expected. Name it "
            ".conll, or give --text 0."
        )
    return read_items(lines, head.text_kind)


def _table_items(path: Path, head: TrainedHead, options: TextOptions) -> list[Item]:
    kind = KINDS[head.text_kind].name
    asked = {**vars(options), "kind": kind}
    read = read_own([path], Choice(texts_alone=True, label=head.saved.label, **asked))
    if not read.sentences:
        raise DataError(f"{path}: there is no text to label.")
    items: list[Item] = []
    for own in read.sentences:
        check_text(read, own, kind)
        one = list(own.words) if own.text is None else own.text
        items.append(one if own.text_pair is None else (str(own.text), own.text_pair))
    return items
