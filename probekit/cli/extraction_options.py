"""The options of ``probekit extract`` that say what is stored, and how."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from probekit.cli.options import split_list

if TYPE_CHECKING:
    from probekit.extraction import ExtractOptions

Format = Annotated[str, typer.Option("--format", help="zarr or hdf5.")]
Dtype = Annotated[
    str,
    typer.Option(
        "--dtype", help="Stored dtype: auto (float16, guarded), float16, bfloat16, float32, int8."
    ),
]
ComputeDtype = Annotated[
    str,
    typer.Option(
        "--compute-dtype", help="auto (bfloat16 where native), float32, bfloat16, float16."
    ),
]
Layers = Annotated[str, typer.Option("--layers", help="Layers to store: all, -1, 0,4,8 or 0:25:4.")]
Keep = Annotated[
    str | None,
    typer.Option(
        "--keep",
        help="Arrays: words (a row per word), cls, mean, last (a row per text), predicted (a row "
        "per predicted token), tokens (last layer's subwords), and output-head; what the task's "
        "labels need if unset.",
    ),
]
Pooling = Annotated[
    str,
    typer.Option(
        "--pooling",
        help="Which subwords make a word's row: auto (first; last for causal models), "
        "first, last, mean.",
    ),
]
Overlong = Annotated[
    str,
    typer.Option(
        "--overlong",
        help="Texts longer than the limit: stride (overlapping windows), truncate, error. Pairs "
        "are cut.",
    ),
]
MaxLength = Annotated[
    int | None,
    typer.Option("--max-length", help="Limit in subwords; the model's own if unset."),
]
Limit = Annotated[
    int | None, typer.Option("--limit", help="Only the first N examples of each split.")
]
BatchTokens = Annotated[int, typer.Option("--batch-tokens", help="Padded tokens per batch.")]

RandomInit = Annotated[
    int | None,
    typer.Option(
        "--random-init",
        metavar="SEED",
        help="Draw the weights at random instead (a baseline); the model is then called "
        "MODEL-random<SEED>.",
    ),
]

Passes = Annotated[
    int | None,
    typer.Option(
        "--passes", help="Masked language modelling: read each text N times, under other masks."
    ),
]
MaskSeed = Annotated[
    int | None, typer.Option("--mask-seed", help="Masked language modelling: seed of the masks.")
]
Every = Annotated[
    int | None,
    typer.Option(
        "--every", help="Next-token prediction: every k-th position predicts; 8 if unset."
    ),
]
Tie = Annotated[
    str | None,
    typer.Option("--tie", help="input: a model without an output head lends its input embeddings."),
]


@dataclass(frozen=True, kw_only=True)
class ExtractionOptions:
    """Options as the user types them; lists are still text, separated by commas."""

    format: Format = "zarr"
    dtype: Dtype = "auto"
    compute_dtype: ComputeDtype = "auto"
    layers: Layers = "all"
    keep: Keep = None
    pooling: Pooling = "auto"
    overlong: Overlong = "stride"
    max_length: MaxLength = None
    limit: Limit = None
    batch_tokens: BatchTokens = 4096
    random_init: RandomInit = None
    passes: Passes = None
    mask_seed: MaskSeed = None
    every: Every = None
    tie: Tie = None

    def parse(self) -> "ExtractOptions":
        """Return the library's options.

        Raises:
            OptionError: a value is none of the choices, or not positive.
        """
        from probekit.extraction import ExtractOptions

        keep = None if self.keep is None else tuple(split_list(self.keep))
        return ExtractOptions(**asdict(self) | {"keep": keep})
