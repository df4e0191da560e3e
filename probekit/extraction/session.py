"""Extract the splits of one task with a model that runs."""

import logging
from dataclasses import dataclass
from functools import cached_property

from probekit.backbone import Backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.base.kinds import ARRAYS, OUTPUT_HEAD
from probekit.errors import DataError
from probekit.extraction.entry_session import EntrySession
from probekit.extraction.estimate import describe_cuts
from probekit.extraction.plan import Plan, make_plan
from probekit.extraction.request import Request
from probekit.probe.model_parts.output_head import OutputHead
from probekit.tasks import Split

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Session(EntrySession):
    """Extracts with a model that runs, and is loaded when first needed.

    Attributes:
        request: what is asked of model and task.
        device: where the model runs; where a small copy is tried, if the target lays it out.
    """

    request: Request
    device: str

    @cached_property
    def backbone(self) -> Backbone:
        """The model, loaded."""
        return load_backbone(
            self.request.inspection,
            device=self.device,
            compute_dtype=self.request.options.compute_dtype,
            device_map=self.target.device_map,
        )

    @cached_property
    def output_head(self) -> OutputHead | None:
        """The output head that entries keep, if any.

        Raises:
            BackboneError: the model has none.
        """
        if OUTPUT_HEAD not in self.request.keep:
            return None
        if self.request.options.tie is not None:
            return self.backbone.tied_head()
        return read_output_head(self.request.inspection)

    def plan(self, split: Split) -> Plan:
        """Tokenise a split, its words, its texts or blocks with predictions, and lay out its entry.

        Raises:
            BackboneError: the tokenizer does not fit the form of prediction.
            OptionError: a limit that the model does not have, or that leaves no room for text; or
                more files than a process can map.
            DataError: an example cannot be read, or is too long and ``overlong`` is ``error``; or
                no token is predicted.
        """
        request, options = self.request, self.request.options
        masking, limit = request.masking, request.max_length
        encoded = request.inspection.encode(
            split.examples, max_length=limit, overlong=options.overlong, masking=masking
        )
        counts = encoded.counts
        if masking is not None and not counts["predicted"]:
            every = f", every {masking['every']}th position (--every)" if "every" in masking else ""
            raise DataError(
                f"{split.origin}: no token is predicted{every}; the texts of {split.name} are too "
                "short or too few."
            )
        if cuts := describe_cuts(split.name, counts, limit):
            logger.warning("%s", cuts)
        arrays = tuple(name for name in request.keep if name in ARRAYS)
        return make_plan(encoded, request.info, options, arrays, request.pooling)
