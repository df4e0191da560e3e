"""The numbers of the layers that states have: stated, or said by their file, and checked."""

from probekit.backbone import BackboneInfo
from probekit.errors import DataError, OptionError
from probekit.extraction.imports.import_options import ImportOptions
from probekit.extraction.imports.sequences import Sequences


def settle_layers(
    sequences: Sequences, options: ImportOptions, info: BackboneInfo
) -> tuple[int, ...]:
    """Return the numbers of the file's layers, in its order.

    Raises:
        OptionError: they are not said, or do not fit.
        DataError: the states are of another width than the model's.
    """
    count, dim = sequences.shape.layers, sequences.shape.dim
    if dim != info.dim:
        raise DataError(
            f"{sequences.where}: the states are {dim} wide, and those of {info.name} {info.dim}. "
            "They are of another model, or their axes are in another order (layers_first)."
        )
    numbers = options.numbers(info.n_blocks)
    if numbers is None:
        raise OptionError(
            f"{sequences.where} has {count} layers. Give their numbers as "
            f"transformers counts hidden_states: --layer-ids. {_suggested(count, info)}"
        )
    wrong = [number for number in numbers if not 0 <= number <= info.n_blocks]
    if len(numbers) != count or wrong or len(set(numbers)) < len(numbers):
        raise OptionError(
            f"the layers {','.join(map(str, numbers))} are said of {sequences.where}, which has "
            f"{count} layers, of {info.name}, whose layers are 0 (embeddings) to {info.n_blocks}. "
            f"Expected the number of each, once. {_suggested(count, info)}"
        )
    return numbers


def _suggested(count: int, info: BackboneInfo) -> str:
    """Return what a number of layers suggests."""
    blocks = info.n_blocks
    if count == blocks + 1:
        return f"{count} layers are as many as {info.name} has: 0:{count} if they are all of them."
    if count == blocks:
        return (
            f"{count} layers are one fewer than {info.name} has: 1:{count + 1} if the embeddings "
            f"are left out, 0:{count} if the last one is."
        )
    return f"{info.name} has {blocks + 1} layers, 0 to {blocks}; whoever computed them knows which."
