"""How tables are laid out, and how their scores are called."""

from typing import Literal

from probekit.results.summaries.text_layout import markdown_table, text_table

Style = Literal["text", "markdown", "jsonl"]
Score = Literal["eval_score", "eval_last", "test_score"]

LAYOUTS = {"text": text_table, "markdown": markdown_table}
STYLES: dict[str, Style] = {"text": "text", "markdown": "markdown", "jsonl": "jsonl"}
SCORE_TEXT = {"eval_score": "dev best", "eval_last": "dev last", "test_score": "test"}
