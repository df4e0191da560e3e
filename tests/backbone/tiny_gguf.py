"""Write a tiny random Llama with a byte-level tokenizer as a GGUF file."""

from pathlib import Path

import gguf
import numpy as np

from tests import tiny

LAYERS, DIM, HEADS, FEED_FORWARD, POSITIONS = 2, 32, 4, 64, 48


def write(path: Path) -> Path:
    """Write the file (float32 weights, no padding token) and return its path."""
    tokenizer = tiny.tokenizer_of("gpt2")
    names = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(DIM)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(names))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(names)
    writer.add_token_types([gguf.TokenType.NORMAL] * len(names))
    writer.add_token_merges(
        [" ".join(pair) for pair in tiny._byte_level(400, ["<|endoftext|>"])[1]]
    )
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.eos_token_id)
    for name, tensor in _tensors(len(names)):
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(vocabulary: int):
    random = np.random.default_rng(0)

    def weight(*shape):
        return random.normal(0, 0.2, shape).astype(np.float32)

    yield "token_embd.weight", weight(vocabulary, DIM)
    yield "output_norm.weight", 1 + weight(DIM)
    yield "output.weight", weight(vocabulary, DIM)
    for block in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{block}.{name}.weight", weight(DIM, DIM)
        yield f"blk.{block}.ffn_gate.weight", weight(FEED_FORWARD, DIM)
        yield f"blk.{block}.ffn_up.weight", weight(FEED_FORWARD, DIM)
        yield f"blk.{block}.ffn_down.weight", weight(DIM, FEED_FORWARD)
        yield f"blk.{block}.attn_norm.weight", 1 + weight(DIM)
        yield f"blk.{block}.ffn_norm.weight", 1 + weight(DIM)
