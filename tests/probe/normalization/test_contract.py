"""What every normalisation in ``NORMALIZATIONS`` must do."""

import json

import pytest
import torch

from probekit.errors import UnknownNameError
from probekit.probe.normalization import NORMALIZATIONS, normalization_from_json
from tests.probe.normalization.cases import DIM, LAYERS, fit, rows


@pytest.mark.parametrize("name", NORMALIZATIONS)
class TestEvery:
    def test_has_its_name_and_layers(self, name: str) -> None:
        fitted = fit(name)
        assert (fitted.name, fitted.layers) == (name, LAYERS)

    def test_shape_and_memory(self, name: str) -> None:
        out = fit(name)(rows())
        assert out.shape == rows().shape
        assert out.transpose(0, 1).is_contiguous()

    def test_has_no_parameters(self, name: str) -> None:
        assert not list(fit(name).parameters())

    def test_does_not_write_to_its_input(self, name: str) -> None:
        z = rows()
        fit(name)(z)
        assert torch.equal(z, rows())

    def test_saves_and_loads(self, name: str) -> None:
        fitted = fit(name)
        value = json.loads(json.dumps(fitted.to_json()))
        assert value["name"] == name
        other = normalization_from_json(value, LAYERS, DIM)
        other.load_state_dict(fitted.state_dict())
        assert torch.equal(other(rows()), fitted(rows()))

    def test_what_is_fitted_is_rebuilt_from_its_tensors(self, name: str) -> None:
        """What a continued run takes over has a name and tensors, and nothing else."""
        if not NORMALIZATIONS[name].fitted:
            assert fit(name, rows()[:20]).state_dict().keys() == fit(name).state_dict().keys()
            assert torch.equal(fit(name, rows()[:20])(rows()), fit(name)(rows()))
            return
        fitted = fit(name)
        other = normalization_from_json({"name": name}, LAYERS, DIM)
        other.load_state_dict(fitted.state_dict())
        assert torch.equal(other(rows()), fitted(rows()))

    @pytest.mark.parametrize("layers", [LAYERS, LAYERS[1:], LAYERS[:2], (0, 3), (2,)])
    def test_a_part_treats_its_layers_as_the_whole_does(self, name: str, layers) -> None:
        fitted = fit(name)
        places = [LAYERS.index(layer) for layer in layers]
        part = fitted.cut(layers)
        z = rows().transpose(0, 1)[places].transpose(0, 1)
        assert part.layers == layers
        assert torch.equal(part(z), fitted(rows())[:, places])
        again = normalization_from_json(part.to_json(), layers, DIM)
        again.load_state_dict(part.state_dict())
        assert torch.equal(again(z), part(z))

    def test_a_part_leaves_the_whole_as_it_is(self, name: str) -> None:
        fitted = fit(name)
        fitted.cut(LAYERS[:1])
        assert fitted.layers == LAYERS
        assert torch.equal(fitted(rows()), fit(name)(rows()))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_rows_become_float32(self, name: str, dtype: torch.dtype) -> None:
        z = rows(dtype)
        out = fit(name, z)(z)
        assert out.dtype == (dtype if name == "none" else torch.float32)
        assert torch.equal(out, fit(name, z)(z.float()).to(out.dtype))

    def test_massive_activations(self, name: str) -> None:
        z = rows(torch.float16)
        z[::7, 1, 2] = 29_303.0
        assert fit(name, z)(z).isfinite().all()


def test_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="standardize"):
        normalization_from_json({"name": "standardise"}, LAYERS, DIM)
