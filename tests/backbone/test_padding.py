"""In which batches a model's states are those of each text alone, found by trying."""

import logging

import pytest
import torch

from probekit.backbone import inspect_backbone, load_backbone, model, padding
from probekit.backbone.padding import prove_batching
from probekit.data.batches import PADDED, Batching
from probekit.errors import BackboneError
from tests.random_models import save_family

CPU = torch.device("cpu")
OF_ONE_LENGTH = Batching(padded_to=0)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return inspect_backbone(save_family("bert", tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture
def inspected(tmp_path):
    def inspect(family, **options):
        return inspect_backbone(save_family(family, tmp_path / family, **options))

    return inspect


@pytest.fixture(autouse=True)
def nothing_found_yet(monkeypatch):
    monkeypatch.setattr(padding, "_found", {})


@pytest.mark.parametrize(("family", "options"), [("gpt2", {}), ("llama", {"eos_token_id": [2, 3]})])
def test_families_that_padding_leaves_alone_stay_padded(inspected, family, options):
    assert load_backbone(inspected(family, **options)).batching == PADDED


# convbert: tests/test_tools.py
@pytest.mark.parametrize("family", ["fnet", "nystromformer"])
def test_families_that_mix_padding_into_rows_run_in_batches_of_one_length(
    inspected, family, caplog
):
    inspection = inspected(family)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            backbone = load_backbone(inspection, compute_dtype="float32")
            assert backbone.batching == OF_ONE_LENGTH
    said = [record.getMessage() for record in caplog.records]
    assert (
        len(said) == 1
        and "padding can change its states, so texts run in batches of one" in said[0]
    )


def longrope(original):
    factors = [1.0 + i for i in range(4)]
    return {
        "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 1e4, "short_factor": factors,
            "long_factor": [4 * factor for factor in factors],
            "original_max_position_embeddings": original,
        }
    }  # fmt: skip


def test_a_threshold_of_length_is_straddled(inspected):
    """All frequencies change once the longest text of a batch exceeds the original positions."""
    found = load_backbone(inspected("llama", **longrope(40))).batching
    assert found == Batching(padded_to=40)


def of_batch(change):
    """Return what makes `layers` of embeddings that ``change(ids)`` is added to."""

    def layers_of(inspection, model):
        table = torch.randn(inspection.info.vocab_size, 8)

        def layers(ids, lengths, keep=None, token_types=None):
            return [table[ids], table[ids] + change(ids)]

        return layers

    return layers_of


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda ids: 0.0, PADDED),
        (lambda ids: 1e-3 * ids.shape[1], OF_ONE_LENGTH),
        (lambda ids: 1e-3 * len(ids), Batching(padded_to=0, alone=True)),
    ],
    ids=["nothing", "the longest", "the number of texts"],
)
def test_what_states_depend_on_decides(bert, change, expected):
    found = prove_batching(bert, of_batch(change), CPU, torch.float32)
    assert found == expected


def test_a_model_left_to_chance_is_refused(bert):
    layers_of = of_batch(lambda ids: 0.1 * torch.rand(()))
    with pytest.raises(
        BackboneError, match=r"BertModel\): the same text gives different states each"
    ):
        prove_batching(bert, layers_of, CPU, torch.float32)


def test_half_precision_is_judged_by_a_control(bert, monkeypatch):
    """Noise of a hundredth in all company is rounding; three hundredths by padding alone is not."""
    monkeypatch.setattr("probekit.backbone.miniature.free_memory", lambda device: 0)

    def noise(ids, padded):
        return (0.01 if len(ids) > 1 else 0.0) + (padded if (ids == 0).any() else 0.0)

    for leak, expected in ((0.01, PADDED), (0.1, OF_ONE_LENGTH)):
        monkeypatch.setattr(padding, "_found", {})
        layers_of = of_batch(lambda ids, leak=leak: noise(ids, leak))
        found = prove_batching(bert, layers_of, CPU, torch.bfloat16)
        assert found == expected


def test_a_family_that_cannot_run_is_refused_in_one_line(bert):
    def layers_of(inspection, model):
        raise KeyError("pixel_values")

    with pytest.raises(BackboneError, match=r"'.*bert' \(BertModel\) cannot run on a short input"):
        prove_batching(bert, layers_of, CPU, torch.float32)


def test_a_family_that_cannot_run_in_a_dtype_is_refused_in_one_line(inspected):
    with pytest.raises(BackboneError, match=r"cannot run on .* Give --compute-dtype float32"):
        load_backbone(inspected("fnet"), compute_dtype="bfloat16")


def test_a_device_without_the_dtype_computes_in_another_one(bert, monkeypatch):
    """As MPS has no bfloat16 on some systems: a move fails before anything runs."""

    def move(module, *args, **kwargs):
        raise TypeError("BFloat16 is not supported on MPS")

    monkeypatch.setattr("probekit.backbone.loading.native_bfloat16", lambda device: True)
    monkeypatch.setattr("probekit.backbone.structure.PreTrainedModel.to", move)
    with pytest.raises(BackboneError, match=r"not supported on MPS.* --compute-dtype float32"):
        model._products_in(bert, "bfloat16", CPU)
    assert model._products_in(bert, "auto", CPU) == torch.float32


def test_the_proof_is_made_once_and_leaves_chance_alone(bert, monkeypatch):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load_backbone(bert)
    assert torch.equal(torch.rand(3), expected)
    monkeypatch.setattr(padding, "stand_in_configs", None)
    assert load_backbone(bert).batching == PADDED
