"""What each layer of a model would predict at each position of a text."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from probekit.backbone import inspect_backbone, load_backbone
from probekit.backbone.final_parts import read_output_head
from probekit.base.kinds import parse_layers
from probekit.base.registry import PathName, typed_name
from probekit.errors import BackboneError, OptionError
from probekit.measures.lens_maps import JACOBIAN, LOGIT, TUNED, Lens, named_lens
from probekit.measures.logit_reader import LogitReader
from probekit.results.layer_scores import PositionPrediction, TextPredictions


def lens_of_text(
    model: PathName,
    text: str,
    *,
    lens: str | Lens = LOGIT,
    layers: str = "all",
    top: int = 5,
    device: str = "auto",
) -> TextPredictions:
    """Run a model over a text, and return what each layer would predict at each position.

    Args:
        model: Hub id, local folder or .gguf file, with an output head.
        text: of at most as many tokens as the model reads.
        lens: ``logit``, or where a lens lies that was saved.
        layers: which layers.
        top: tokens to return of each layer and position, or all if there are fewer.
        device: what computes.

    Raises:
        BackboneError: the model has no output head, or a head or final norm that is not understood.
        OptionError: a layer does not exist, the text is empty or too long, or the lens is of
            another model.
        MissingFileError: there is no such model or lens.
    """
    if lens in (TUNED, JACOBIAN):
        raise OptionError(f"--lens {lens} is fitted on a task: give the folder that --save wrote.")
    inspection = inspect_backbone(typed_name(model))
    info, tokenizer = inspection.info, inspection.text_tokenizer
    lens = named_lens(lens, info.n_blocks, info.dim)
    ids = torch.tensor(tokenizer(text)["input_ids"], dtype=torch.long)
    limit = info.identity.max_length
    if not 0 < len(ids) <= limit:
        raise OptionError(f"the text has {len(ids)} tokens; {info.name} reads 1 to {limit}.")
    chosen = lens.among(parse_layers(layers, info.n_blocks), info.n_blocks, asked=layers != "all")
    head, backbone = read_output_head(inspection), load_backbone(inspection, device=device)
    if inspection.structure.final_norm is not None and backbone.final_norm is None:
        raise BackboneError(
            f"model {info.name!r}: probekit does not understand its final norm, so it cannot apply "
            "a lens to layers before the last. Choose another model."
        )
    states = backbone.layers(ids[None], torch.tensor([len(ids)]), chosen)
    reader = LogitReader(backbone.final_norm, head, info.n_blocks).to(torch.device("cpu"))
    targets = ids[1:] if info.causal else ids
    of_layers = [
        _predicted(layer, reader.logits(lens, layer, state.float().cpu()), targets, tokenizer, top)
        for layer, (state,) in zip(chosen, states, strict=True)
    ]
    return TextPredictions(
        model=info.called,
        lens=lens.name,
        causal=info.causal,
        tokens=_decoded(tokenizer, ids.tolist()),
        positions=list(zip(*of_layers, strict=True)),
    )


def _predicted(
    layer: int,
    logits: Float[Tensor, "positions vocabulary"],
    targets: Int64[Tensor, " targets"],
    tokenizer: PreTrainedTokenizerFast,
    top: int,
) -> list[PositionPrediction]:
    """Return what a layer predicts at each position; the last ones may have no target."""
    p = logits.log_softmax(1)
    best, tokens = p.topk(min(top, p.shape[1]))
    found = []
    for position in range(len(p)):
        own = p[position, targets[position]] if position < len(targets) else None
        found.append(
            PositionPrediction(
                layer=layer,
                tokens=_decoded(tokenizer, tokens[position].tolist()),
                probabilities=best[position].exp().tolist(),
                rank=None if own is None else int((p[position] > own).sum()) + 1,
                probability=None if own is None else float(own.exp()),
            )
        )
    return found


def _decoded(tokenizer: PreTrainedTokenizerFast, ids: Sequence[int]) -> list[str]:
    """Return each token by itself, as it stands in a text."""
    return [str(tokenizer.decode([number])) for number in ids]
