"""Entries of a model's configuration that change nothing which the model computes."""

PROVENANCE = frozenset(
    {
        "_name_or_path", "architectures", "auto_map", "dtype", "id2label", "label2id",
        "num_labels", "problem_type", "task_specific_params", "torch_dtype",
        "transformers_version",
    }
)  # fmt: skip
"""Where a model came from, how its weights are stored, and what its heads were for."""

OUTPUTS = frozenset(
    {
        "output_attentions", "output_hidden_states", "return_dict", "tie_word_embeddings",
        "use_cache",
    }
)  # fmt: skip
"""What a forward pass returns besides hidden states, and how an output head is stored."""
