"""Four sentences with random states, and an import that must leave nothing behind."""

import dataclasses
from types import MappingProxyType

import pytest
import torch
from transformers import AutoTokenizer

from probekit.errors import ProbekitError
from probekit.extraction.imports import import_states
from tests.extraction.imports.exporting import FOUR, PLAIN, Exporter, sentences

NOTHING = MappingProxyType({})


@pytest.fixture(scope="session")
def found(bert):
    """Token ids and random states of four sentences."""
    tokenizer, random = AutoTokenizer.from_pretrained(bert), torch.Generator().manual_seed(0)
    ids = [torch.tensor(tokenizer(words, is_split_into_words=True)["input_ids"]) for words in FOUR]
    return [(one, torch.randn(len(one), 4, 32, generator=random)) for one in ids]


@pytest.fixture(scope="session")
def exporter(bert):
    return Exporter(bert)


@pytest.fixture
def imported(bert, tmp_path):
    def run(states, options=PLAIN, **more):
        wanted = {"examples": sentences(4), "cache": tmp_path / "cache", **more}
        (entry,) = import_states(bert, "mine", states, options=options, **wanted)
        return entry

    return run


@pytest.fixture
def refuses(imported, tmp_path):
    def run(error, message, states, options=NOTHING, **more):
        with pytest.raises(error, match=message) as caught:
            wanted = dataclasses.replace(PLAIN, **options)
            imported(states, wanted, **more)
        assert isinstance(caught.value, ProbekitError)
        assert not list(tmp_path.glob("cache/*/*/*")), "nothing is written"
        return str(caught.value)

    return run
