"""Run in the judge's environment: vLLM writes every layer of requests through its own connector.

python vllm_states.py MODEL FOLDER LAYERS < JSON: a list of token ids for each request
"""

import json
import sys
from unittest import mock

import torch
from vllm import LLM, SamplingParams
from vllm.distributed.kv_transfer.kv_connector.v1.example_hidden_states_connector import (
    ExampleHiddenStatesConnector,
    load_hidden_states,
)


class Unpinned(ExampleHiddenStatesConnector):
    """The connector, without what it asks of a GPU: pinned memory, and events to wait for."""

    def get_finished(self, finished_req_ids):
        with mock.patch.object(torch.cuda.Event, "query", lambda event: True, create=True):
            return super().get_finished(finished_req_ids)

    def _submit_async_write(self, pending):
        empty_like = torch.empty_like

        def unpinned(tensor, *, pin_memory=False, **options):
            return empty_like(tensor, **options)

        with mock.patch.object(torch, "empty_like", unpinned):
            super()._submit_async_write(pending)


def main() -> None:
    model, folder, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    requests = json.load(sys.stdin)
    llm = LLM(
        model,
        dtype="float32",
        enforce_eager=True,
        enable_chunked_prefill=False,
        enable_prefix_caching=False,
        max_model_len=512,
        max_num_seqs=4,
        speculative_config={
            "method": "extract_hidden_states",
            "num_speculative_tokens": 1,
            "draft_model_config": {
                "hf_config": {"eagle_aux_hidden_state_layer_ids": list(range(layers))}
            },
        },
        kv_transfer_config={
            "kv_connector": "Unpinned",
            "kv_connector_module_path": "vllm_states",
            "kv_role": "kv_producer",
            "kv_connector_extra_config": {"shared_storage_path": folder},
        },
    )
    prompts = [{"prompt_token_ids": ids} for ids in requests]
    for output in llm.generate(prompts, SamplingParams(max_tokens=1)):
        load_hidden_states(output.kv_transfer_params["hidden_states_path"])  # waits for its writer


if __name__ == "__main__":
    main()
