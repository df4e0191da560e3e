"""Which tokens of a text are kept, and where a chat template puts the messages of a talk."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Bool
from transformers import PreTrainedTokenizerBase

from probekit.data.encoded import EncodedSplit
from probekit.errors import BackboneError, DataError, OptionError, reason_of

Turn = tuple[str, int, int]
"""A role, and where the content of its message begins and ends (excluded), in characters."""

ROLES = ("assistant", "user", "system", "tool")
_FORMS = f"{', '.join(ROLES)}, last:N, between:A:B or regex:R"


@dataclass(frozen=True)
class TokenChoice:
    """A rule, as ``--only`` gives it.

    Attributes:
        role: whose messages of a conversation are kept; None of the other rules.
        last: how many of a text's last tokens are kept; None of the other rules.
        pattern: finds the stretches of a text whose tokens are kept: all of a match, or of it the
            group ``kept``.
    """

    role: str | None = None
    last: int | None = None
    pattern: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, text: str, option: str = "--only") -> Self:
        """Read ``assistant``, ``last:5``, ``between:<think>:</think>`` or ``regex:[0-9]+``.

        Args:
            text: the rule.
            option: that it is given by, for messages.

        Raises:
            OptionError: it has another form, or matches everywhere and nothing.
        """
        form, _, rest = text.partition(":")
        if text in ROLES:
            return cls(role=text)
        if form == "last" and rest.isdecimal() and int(rest):
            return cls(last=int(rest))
        if form == "between" and all(marks := rest.partition(":")[::2]):
            before, after = map(re.escape, marks)
            return cls(pattern=re.compile(f"{before}(?P<kept>.*?){after}", re.DOTALL))
        if form == "regex" and rest:
            try:
                pattern = re.compile(rest)
            except re.error as error:
                raise OptionError(
                    f"{option} {text}: not a regular expression ({error}). Mend it."
                ) from None
            if pattern.fullmatch("") is None:
                return cls(pattern=pattern)
            raise OptionError(
                f"{option} {text}: it matches empty text, too. Ask for a character or more."
            )
        raise OptionError(f"{option} {text}: expected {_FORMS}.")

    def stretches(self, text: str, turns: Sequence[Turn] = ()) -> Iterator[tuple[int, int]]:
        """Yield where a stretch of a text begins, in characters, and where it ends (excluded).

        Args:
            text: the text.
            turns: of a conversation, where its messages stand.
        """
        yield from ((start, stop) for role, start, stop in turns if role == self.role)
        if self.pattern is not None:
            group = "kept" if "kept" in self.pattern.groupindex else 0
            spans = (match.span(group) for match in self.pattern.finditer(text))
            yield from (span for span in spans if span[0] >= 0)  # else the group took no part

    def kept(self, split: EncodedSplit) -> Bool[np.ndarray, " tokens"]:
        """Return which subwords of the windows of a split are kept, each once."""
        once = split.once
        if self.last is None:
            assert split.kept is not None, "stretches are looked up as texts are tokenised"
            return split.kept & once
        # of a text's five subwords, 0 1 2 3 4 before each and 5 in all, the last two are 3 and 4
        before = np.cumsum(once) - once
        bounds = split.example_tokens
        counts = np.add.reduceat(np.append(once, False), bounds[:-1]) * (np.diff(bounds) > 0)
        first = np.concatenate([before, [once.sum()]])[bounds[:-1]] + counts - self.last
        return once & (before >= np.repeat(first, np.diff(bounds)))


def inside(offsets: list[tuple[int, int]], stretches: list[tuple[int, int]]) -> list[bool]:
    """Say of each subword, by its characters, whether a part of it lies in a stretch.

    Args:
        offsets: first character of each subword, and one past its last.
        stretches: in ascending order, apart from one another.
    """
    if not stretches:
        return [False] * len(offsets)
    starts, stops = np.array(stretches).T
    begins, ends = np.array(offsets).reshape(-1, 2).T
    at = np.searchsorted(stops, begins, side="right")  # the first that ends behind its beginning
    next_start = np.append(starts, np.iinfo(np.int64).max)[at]
    return (next_start < ends).tolist()


@dataclass(frozen=True)
class Rendered:
    """A conversation as the model reads it.

    Attributes:
        text: special tokens included, as they are written.
        turns: where each message stands.
    """

    text: str
    turns: tuple[Turn, ...]


def require_template(tokenizer: PreTrainedTokenizerBase, model: str) -> None:
    """Refuse a tokenizer without a chat template.

    Raises:
        BackboneError: the tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise BackboneError(
            f"model {model!r}: its tokenizer has no chat template, so it cannot read conversations "
            "(lists of messages with role and content). Choose a chat model, or put each "
            "conversation into a column of plain text."
        )


def render(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]], name: str
) -> Rendered:
    """Write a conversation by the tokenizer's chat template, without a prompt for an answer.

    Args:
        tokenizer: one that has a template.
        messages: with ``role`` and ``content``.
        name: of the example, for messages.

    Raises:
        DataError: the template refuses the conversation, or leaves a message out.
    """
    text = _apply(tokenizer, messages, name)
    # with a sign of its own in place of each content, the template shows where contents go
    filled = [m for m in messages if (m.get("content") or "").strip()]
    signs = {id(m): f"\ue000{number}\ue001" for number, m in enumerate(filled)}
    marked = [{**m, "content": signs.get(id(m), m.get("content"))} for m in messages]
    turns = _by_signs(_apply(tokenizer, marked, name), text, [*signs.values()], filled)
    return Rendered(text, _by_search(text, filled, name) if turns is None else turns)


def _apply(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, Any]], name: str
) -> str:
    try:
        text = tokenizer.apply_chat_template([dict(m) for m in messages], tokenize=False)
    except Exception as error:  # a template raises whatever its author chose
        raise DataError(
            f"{name}: the model's chat template refuses this conversation ({reason_of(error)})."
        ) from error
    return str(text)


def _by_signs(
    marked: str, text: str, signs: Sequence[str], messages: Sequence[Mapping[str, Any]]
) -> tuple[Turn, ...] | None:
    """Return where contents stand; None if the template treats them by what they are."""
    turns, at, behind = list[Turn](), 0, marked
    for sign, message in zip(signs, messages, strict=True):
        before, found, behind = behind.partition(sign)
        at += len(before)
        written = (message["content"], message["content"].strip())
        content = next((form for form in written if text.startswith(form, at)), None)
        if not found or content is None or not text.startswith(before, at - len(before)):
            return None
        turns.append((message["role"], at, at + len(content)))
        at += len(content)
    return tuple(turns) if text[at:] == behind else None


def _by_search(text: str, messages: Sequence[Mapping[str, Any]], name: str) -> tuple[Turn, ...]:
    """Return where contents stand, if nothing else in the text reads like one of them."""
    turns, at = list[Turn](), 0
    contents = Counter(message["content"].strip() for message in messages)
    for message in messages:
        content = message["content"].strip()
        start = text.find(content, at)
        if start < 0 or text.count(content) != contents[content]:
            raise DataError(
                f"{name}: the model's chat template does not write messages as they are, so the "
                f"tokens of {content[:40]!r} ({message['role']}) cannot be told from others."
            )
        at = start + len(content)
        turns.append((message["role"], start, at))
    return tuple(turns)
