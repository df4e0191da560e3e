"""The vocabulary decoder against the output head that it is made of."""

from pathlib import Path

import pytest
import torch

from probekit.base.registry import parse
from probekit.errors import EntryError, OptionError
from probekit.probe.decoders import DECODERS, Vocabulary, decoder_from_json
from probekit.probe.decoders.vocabulary import VocabularyDecoder
from probekit.probe.model_parts import OUTPUT_HEAD_FILE, KeptBackbone
from probekit.testing.decoder_checks import OFFSETS, WIDTH
from probekit.testing.decoder_checks import sample_rows as rows
from probekit.testing.promises import seeded_generator as generator
from tests.probe.decoders.cases import output_head

OWN = {"weight", "bias"} | {
    f"transform.{name}" for name in ("dense_weight", "dense_bias", "norm_weight", "norm_bias")
}
NEW = {f"transform.{part}.{name}" for part in ("dense", "norm") for name in ("weight", "bias")}


def built(tmp_path: Path, kind: str, width: int = WIDTH, **options) -> VocabularyDecoder:
    (tmp_path / OUTPUT_HEAD_FILE).write_bytes(output_head(kind).to_file())
    spec = Vocabulary(**options).bind(tmp_path)
    return spec.build(width, 0, generator())


@pytest.mark.parametrize("kind", ["masked", "causal"])
@pytest.mark.parametrize("trained", [False, True])
def test_is_the_output_head(tmp_path: Path, kind: str, trained: bool) -> None:
    decoder, head = built(tmp_path, kind, trained=trained), output_head(kind)
    torch.testing.assert_close(decoder(rows()), head(rows()))
    assert decoder.n_classes == 11
    assert torch.equal(decoder.predict(decoder(rows())), head(rows()).argmax(1))
    if kind == "masked" and not trained:
        without = built(tmp_path, kind, transform="none")
        torch.testing.assert_close(without(rows()), rows() @ head.weight.T + head.bias)


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("masked", {}, set()), ("masked", {"trained": True}, OWN),
        ("masked", {"transform": "none"}, set()),
        ("masked", {"transform": "none", "trained": True}, {"weight", "bias"}),
        ("masked", {"transform": "new"}, NEW),
        ("masked", {"transform": "new", "trained": True}, NEW | {"weight", "bias"}),
        ("causal", {}, set()), ("causal", {"trained": True}, {"weight"}), ("tied-input", {}, NEW),
        ("tied-input", {"transform": "none"}, set()),
    ],
)  # fmt: skip
def test_what_is_trained_and_saved(
    tmp_path: Path, kind: str, options: dict, expected: set[str]
) -> None:
    decoder = built(tmp_path, kind, **options)
    assert {name for name, _ in decoder.named_parameters()} == expected
    assert set(decoder.state_dict()) == expected


def test_training_leaves_the_shared_numbers_alone(tmp_path: Path) -> None:
    frozen, trained = built(tmp_path, "masked"), built(tmp_path, "masked", trained=True)
    before = frozen(rows())
    trained.loss(trained(rows()), torch.arange(20) % 11, OFFSETS).backward()
    torch.optim.SGD(trained.parameters(), lr=1.0).step()
    assert torch.equal(frozen(rows()), before)
    assert not torch.equal(trained(rows()), before)


def test_a_frozen_matrix_is_moved_once_for_all_decoders(backbone: Path) -> None:
    first, second = (Vocabulary().bind(backbone).build(WIDTH, 0, generator()) for _ in range(2))
    here = first.weight
    assert KeptBackbone(backbone).output_head is first._shared
    assert first.to("cpu").weight is here and second.weight is here
    assert first.to("meta").weight.device.type == "meta"
    assert first.weight is second.to("meta").weight
    assert second.double().weight.dtype == torch.float64
    trained = Vocabulary(trained=True).bind(backbone).build(WIDTH, 0, generator()).to("meta")
    assert trained.weight is not first.weight and trained.weight.requires_grad


def test_a_new_transform_takes_any_width(tmp_path: Path) -> None:
    assert built(tmp_path, "masked", width=3, transform="new")(torch.ones(2, 3)).shape == (2, 11)
    for transform in ("own", "none"):
        with pytest.raises(OptionError, match=r"width 7, the fusion head gives 3.*transform=new"):
            built(tmp_path, "masked", width=3, transform=transform)


def test_refuses(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="bind"):
        Vocabulary().build(WIDTH, 0, generator())
    with pytest.raises(EntryError, match="--keep predicted,output-head"):
        Vocabulary().bind(tmp_path).build(WIDTH, 0, generator())
    for form in ("vocabulary:transform=old", "vocabulary:trained=old"):
        with pytest.raises(OptionError, match=r"own or none or new|true or false"):
            parse("decoder", form, DECODERS)
    with pytest.raises(OptionError, match=r"(?s)own.*none.*new"):
        decoder_from_json({"name": "vocabulary", "transform": "old"})
