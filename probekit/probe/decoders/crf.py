"""CRF decoder: a linear-chain conditional random field over the tags of a sentence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from probekit.errors import OptionError
from probekit.probe.decoders.chain import Chain, best_paths, log_marginals, log_partition, pack
from probekit.probe.decoders.contract import (
    UNSEEN_LOSS,
    Decoder,
    DecoderSpec,
    Fused,
    Logits,
    LogProbabilities,
    Losses,
    Objective,
    Offsets,
    Solution,
    Targets,
)
from probekit.probe.decoders.dropout import check_rate
from probekit.probe.decoders.linear import Linear
from probekit.probe.decoders.mlp import MLP
from probekit.probe.parameter_groups import Groups, divide


@dataclass(frozen=True, kw_only=True)
class CRF(DecoderSpec):
    """p(tags | sentence) = exp(score of the path) / sum over all paths; predicts the best path.

    Emissions are the logits of `Linear`, or of `MLP` when ``hidden`` is not 0. Transitions and the
    scores of first and last tags start at 0, where the CRF is its emissions alone. They have a rate
    of their own, because at 2e-3 they stay within 0.2 of zero.

    Attributes:
        hidden: width of two hidden layers below the emissions; 0 is none.
        dropout: as in `Linear` and `MLP`.
    """

    hidden: int = 0
    dropout: float = 0.1

    name: ClassVar[str] = "crf"
    source: ClassVar[str] = "Lafferty et al. 2001; attention fusion, section 4"
    summary: ClassVar[str] = "linear-chain CRF over the tags of a sentence"
    kinds: ClassVar[frozenset[str]] = frozenset({"tagging"})
    group_rates: ClassVar[Mapping[str, float | None]] = {"transitions": 0.1}

    def __post_init__(self) -> None:
        """Check width and rate."""
        if self.hidden < 0:
            raise OptionError(f"crf: hidden must be 0 or more, found {self.hidden}.")
        check_rate(self.name, self.dropout)

    @property
    def objective(self) -> Objective | None:
        """The paths' likelihood, convex in emissions and transitions without hidden layers."""
        return None if self.hidden else "chain"

    def build(self, width: int, n_classes: int, generator: torch.Generator) -> "CRFDecoder":
        """Create the module; only the emissions are drawn."""
        layers: Linear | MLP = Linear(dropout=self.dropout)
        if self.hidden:
            layers = MLP(hidden=self.hidden, dropout=self.dropout)
        return CRFDecoder(layers.build(width, n_classes, generator))


class CRFDecoder(Decoder):
    """Module of `CRF`; its logits are the emissions.

    The tag of a row that does not count is summed out, and so is that of a class the decoder does
    not know, which costs ``UNSEEN_LOSS`` besides.
    """

    def __init__(self, emission: Decoder) -> None:
        """Add transitions to the decoder that gives the emissions."""
        n_tags = emission.n_classes
        super().__init__(emission.width, n_tags)
        self.emission = emission
        self.transitions = nn.Parameter(torch.zeros(n_tags, n_tags))
        self.start = nn.Parameter(torch.zeros(n_tags))
        self.end = nn.Parameter(torch.zeros(n_tags))

    @property
    def affine(self) -> tuple[Tensor, Tensor] | None:
        """Weight and bias of the emissions, if they are affine."""
        return self.emission.affine

    def parameter_groups(self) -> Groups:
        """Return transitions and the scores of both ends as ``transitions``."""
        transitions = (self.transitions, self.start, self.end)
        return divide(self, transitions=transitions)

    @torch.no_grad()
    def load(self, solution: Solution) -> None:
        """Take emissions and transitions; a tag that was not drawn is the last to follow."""
        self.emission.load(solution)
        (transitions, *ends), present = solution.chain, solution.present
        self.transitions.fill_(float(transitions.min()))
        self.transitions[present.unsqueeze(1), present] = transitions.to(self.transitions)
        for at_end, scores in zip((self.start, self.end), ends, strict=True):
            at_end.fill_(float(scores.min()))
            at_end[present] = scores.to(at_end)

    def forward(self, h: Fused, generator: torch.Generator | None = None) -> Logits:
        """Return the emissions; the products run in the autocast dtype."""
        return self.emission(h, generator)

    def row_losses(self, logits: Logits, targets: Targets, offsets: Offsets = None) -> Losses:
        """Return each sentence's negative log-likelihood in nats on its first row."""
        # Sentences of 2, 0 and 1 words (offsets 0 2 2 3) with targets 4 -100 | 9, of which 9 is no
        # class: known words 1 0 0, unseen ones 0 0 1. The first has the loss of its 4, whatever its
        # other tag; the last has ``UNSEEN_LOSS``; they stand in rows 0 and 2, and row 1 has 0.
        offsets = _bounds(logits, offsets)
        first, lengths = offsets[:-1], offsets.diff()
        sentence = torch.arange(len(first), device=logits.device).repeat_interleave(lengths)
        unseen = targets >= self.n_classes
        known = self.counted(targets) & ~unseen
        n_known, n_unseen = (
            torch.zeros_like(first).index_add_(0, sentence, marks.long())
            for marks in (known, unseen)
        )
        likelihoods = self._likelihoods(logits, targets, known, offsets)
        losses = torch.where(n_known > 0, -likelihoods, 0.0)
        losses = losses + n_unseen.to(losses.dtype) * UNSEEN_LOSS
        here = lengths > 0
        return torch.zeros_like(logits[:, 0]).index_put((first[here],), losses[here])

    def predict(self, logits: Logits, offsets: Offsets = None) -> Int64[Tensor, " rows"]:
        """Return the tags of each sentence's best path."""
        packing = pack(_bounds(logits, offsets))
        tags = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
        if len(logits):
            tags[packing.rows] = best_paths(self._chain(), logits[packing.rows], packing)
        return tags

    def log_probabilities(self, logits: Logits, offsets: Offsets = None) -> LogProbabilities:
        """Return the log marginal probability of each tag at each word.

        The tag that is most probable by itself need not be that of the best path.
        """
        packing = pack(_bounds(logits, offsets))
        log_p = torch.empty_like(logits, dtype=torch.float64)
        if len(logits):
            emissions = logits[packing.rows].double()
            log_p[packing.rows] = log_marginals(self._chain().double(), emissions, packing)
        return log_p

    def _likelihoods(
        self, logits: Tensor, targets: Tensor, known: Tensor, offsets: Tensor
    ) -> Tensor:
        """Return each sentence's log p(known tags): the paths that agree with them, over all.

        Both sums run side by side, the first as a second copy of the sentences whose emissions
        forbid the other tags.
        """
        n_rows, n_sentences = len(logits), len(offsets) - 1
        if n_rows == 0:
            return logits.new_zeros(n_sentences) + logits.sum()  # of a graph, as any other loss
        other = targets[:, None] != torch.arange(self.n_classes, device=logits.device)
        agreeing = logits.masked_fill(other & known[:, None], -math.inf)
        packing = pack(torch.cat([offsets, offsets[1:] + n_rows]))
        with torch.autocast(logits.device.type, enabled=False):
            emissions = torch.cat([logits, agreeing])[packing.rows]
            sums = log_partition(self._chain(), emissions, packing)
        sums = sums.new_zeros(2 * n_sentences).index_put((packing.sentences,), sums)
        return sums[n_sentences:] - sums[:n_sentences]

    def _chain(self) -> Chain:
        return Chain(self.transitions, self.start, self.end)


def _bounds(logits: Tensor, offsets: Tensor | None) -> Tensor:
    """Return the sentences' bounds; without any, all rows are one sentence."""
    if offsets is not None:
        return offsets
    return torch.tensor([0, len(logits)], device=logits.device)
