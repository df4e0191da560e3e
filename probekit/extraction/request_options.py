"""What an extraction is asked for: options that check themselves and turn into JSON."""

from dataclasses import dataclass, fields
from typing import Any, get_args

from probekit.backbone.dtypes import ComputeDtype
from probekit.base.kinds import ARRAYS, OUTPUT_HEAD
from probekit.base.registry import choose
from probekit.data.pooling import Pooling
from probekit.data.windows import OVERLONG
from probekit.errors import OptionError
from probekit.store.arrays import FEATURE_DTYPES
from probekit.store.backends import BACKENDS

DTYPES = ("auto", *FEATURE_DTYPES)
COMPUTE_DTYPES = get_args(ComputeDtype)
POOLINGS = ("auto", *get_args(Pooling))
KEEP = (*ARRAYS, OUTPUT_HEAD)

_REQUESTED = ("format", "dtype", "compute_dtype", "overlong", "max_length")


@dataclass(frozen=True, kw_only=True)
class ExtractOptions:
    """Options of one extraction, all of them independent of the machine that runs it.

    Attributes:
        format: storage backend, ``zarr`` or ``hdf5``.
        dtype: stored dtype; ``auto`` is float16, or bfloat16 where float16 would overflow.
        compute_dtype: dtype of the forward pass; ``auto`` is bfloat16 where native, else float32.
        layers: layers to store, in the language of ``probekit.base.layers``.
        keep: arrays to store: ``words`` (every chosen layer, one row per word), ``cls``, ``mean``
            and ``last`` (every chosen layer, one row per text: its first token, the mean of all,
            its last token), ``predicted`` (every chosen layer, one row per predicted token of
            language modelling) and ``tokens`` (last layer, one row per subword of every window);
            ``output-head`` is the model's own. None is what the task's labels need
            (``keep.resolve_keep``).
        pooling: which subwords make a word's row; ``auto`` is the first subword for
            bidirectional models and the last one for causal models.
        overlong: what happens to texts longer than the limit: ``stride`` reads overlapping
            windows, ``truncate`` cuts and counts, ``error`` refuses.
        max_length: limit in subwords, specials included; ``None`` is the model's own.
        limit: read only the first N examples of each split.
        batch_tokens: padded tokens per batch.
        random_init: seed; draw the weights at random instead of reading the model's own, as a
            baseline. The entry's model is then called ``<model>-random<seed>``.
        passes: for masked language modelling: read each text this often, under other masks.
        mask_seed: for masked language modelling: of the masks.
        every: for next-token prediction: every k-th position predicts.
        tie: ``input``: for a model without an output head, its input embeddings.
    """

    format: str = "zarr"
    dtype: str = "auto"
    compute_dtype: str = "auto"
    layers: str = "all"
    keep: tuple[str, ...] | None = None
    pooling: str = "auto"
    overlong: str = "stride"
    max_length: int | None = None
    limit: int | None = None
    batch_tokens: int = 4096
    random_init: int | None = None
    passes: int | None = None
    mask_seed: int | None = None
    every: int | None = None
    tie: str | None = None

    def __post_init__(self) -> None:
        """Check every value.

        Raises:
            OptionError: a value is none of the choices, or not positive.
            UnknownNameError: the backend is unknown.
        """
        choose("format", self.format, BACKENDS)
        _check_choice("--dtype", self.dtype, DTYPES)
        _check_choice("--compute-dtype", self.compute_dtype, COMPUTE_DTYPES)
        _check_choice("--pooling", self.pooling, POOLINGS)
        _check_choice("--overlong", self.overlong, OVERLONG)
        if self.keep is not None:
            object.__setattr__(self, "keep", _checked_keep(self.keep))
        _check_positive("--max-length", self.max_length)
        _check_positive("--limit", self.limit)
        _check_positive("--batch-tokens", self.batch_tokens)
        _check_positive("--passes", self.passes)
        _check_positive("--every", self.every)
        _check_seed("--random-init", self.random_init)
        _check_seed("--mask-seed", self.mask_seed)
        if self.tie is not None:
            _check_choice("--tie", self.tie, ("input",))

    def requested(self) -> dict[str, Any]:
        """Return the part of the options that the key of an entry hashes as it was given.

        The batch size is left out: it moves the last bits at most. What depends on the task and
        the model is left to ``request.make_request``.
        """
        return {name: getattr(self, name) for name in _REQUESTED}

    def words(self) -> list[str]:
        """Return the command-line words of the options that are not their default."""
        found = []
        for field in fields(self):
            value = getattr(self, field.name)
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            if value != field.default:
                found += [f"--{field.name.replace('_', '-')}", text]
        return found


def _checked_keep(keep: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``keep`` in the order of an entry's arrays: order and repetitions mean nothing."""
    for name in keep:
        _check_choice("--keep", name, KEEP)
    if not set(keep) & set(ARRAYS):
        raise OptionError(f"--keep names no array. Choose from: {', '.join(ARRAYS)}.")
    return tuple(name for name in KEEP if name in keep)


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise OptionError(f"{option} {value!r} is none of: {', '.join(choices)}.")


def _check_seed(option: str, value: int | None) -> None:
    if value is not None and value < 0:
        raise OptionError(f"{option} {value}: a seed is 0 or more.")


def _check_positive(option: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise OptionError(f"{option} must be a positive number; found {value}.")
