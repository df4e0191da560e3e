"""Conversations by a chat template: the text is the tokenizer's own, and each message is found."""

import pytest

from probekit.data.token_choice import render, require_template
from probekit.errors import BackboneError, DataError
from probekit.tasks.conversations import are_conversations, conversation_text, messages_of, readable
from tests import tiny

PLAIN = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
TRIMMED = PLAIN.replace("m.content", "m.content.strip()")
DATED = "Today is Monday.\n" + TRIMMED
SILENT = PLAIN.replace("{{ m.content }}", "{% if m.content %}{{ m.content }}{% endif %}")
CALLING = PLAIN.replace("{{ m.content }}", "{{ m.content or m.tool_calls[0].name }}")
UNTHOUGHTFUL = PLAIN.replace("m.content", "m.content.split('</think>')[-1]")
LOUD = PLAIN.replace("m.content", "m.content.upper()")
STRICT = "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}" + PLAIN

CONVERSATIONS = [
    [("user", "Hello there"), ("assistant", "assistant"), ("user", "user"), ("assistant", "a")],
    [("user", "a"), ("assistant", "a"), ("user", "a")],
    [("user", "  blanks \n"), ("assistant", "<|end|>")],
    [("user", "{{ m.role }}"), ("assistant", "東京 😀"), ("tool", "{}"), ("assistant", "")],
    [("user", "hi"), ("assistant", ""), ("tool", "t"), ("assistant", "a")],
]


@pytest.fixture
def tokenizer():
    return tiny.build_tokenizer("llama")


def messages(turns):
    return [{"role": role, "content": content} for role, content in turns]


@pytest.mark.parametrize("template", [PLAIN, TRIMMED, DATED, STRICT, SILENT])
@pytest.mark.parametrize("turns", CONVERSATIONS)
def test_every_message_is_found_where_the_template_puts_it(tokenizer, template, turns):
    tokenizer.chat_template = template
    rendered = render(tokenizer, messages(turns), "one")
    assert rendered.text == tokenizer.apply_chat_template(messages(turns), tokenize=False)
    said = [turn for turn in turns if turn[1].strip()]
    for (role, content), (found, start, stop) in zip(said, rendered.turns, strict=True):
        assert found == role and rendered.text[start:stop].strip() == content.strip()
        assert rendered.text[:start].endswith(f"<|{role}|>\n")
        number = [*turns].index((role, content)) if turns.count((role, content)) == 1 else None
        if number is not None:
            before = rendered.text[:start].removesuffix(f"<|{role}|>\n")
            assert before.removeprefix("Today is Monday.\n").count("<|end|>\n") >= number


def test_what_else_a_message_says_is_the_templates(tokenizer):
    tokenizer.chat_template = CALLING
    calls = [{"name": "look", "arguments": {}}]
    given = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "found", "name": None},
    ]
    told = messages_of(conversation_text(given))
    assert told[1] == {"role": "assistant", "content": None, "tool_calls": calls}
    assert told[2] == {"role": "tool", "content": "found"}
    rendered = render(tokenizer, told, "one")
    assert rendered.text.split("<|end|>\n")[1] == "<|assistant|>\nlook"
    assert [role for role, *_ in rendered.turns] == ["user", "tool"]


def test_what_reads_like_a_message_elsewhere_is_no_place_for_one(tokenizer):
    """A template that treats contents: "user" stands in a header as well."""
    tokenizer.chat_template = UNTHOUGHTFUL
    given = messages([("user", "<think>x</think>user"), ("assistant", "yes")])
    with pytest.raises(DataError, match="cannot be told from others"):
        render(tokenizer, given, "one")


def test_a_template_that_leaves_a_part_out(tokenizer):
    tokenizer.chat_template = UNTHOUGHTFUL
    turns = [("user", "1 + 1"), ("assistant", "2")]
    assert render(tokenizer, messages(turns), "one").turns
    turns = [("user", "1 + 1"), ("assistant", "<think>hm</think>2")]
    with pytest.raises(DataError, match=r"one: .* does not write messages as they are"):
        render(tokenizer, messages(turns), "one")


def test_what_a_template_refuses_or_changes_is_told(tokenizer):
    tokenizer.chat_template = STRICT
    with pytest.raises(DataError, match=r"refuses this conversation .*user first"):
        render(tokenizer, messages([("system", "Be good")]), "one")
    tokenizer.chat_template = LOUD
    with pytest.raises(DataError, match="cannot be told from others"):
        render(tokenizer, messages([("user", "hello")]), "one")
    tokenizer.chat_template = None
    with pytest.raises(BackboneError, match="'mine': its tokenizer has no chat template"):
        require_template(tokenizer, "mine")


def test_forms_of_conversations():
    expected = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for value in (
        expected,
        [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}]}, expected[1]],
    ):
        assert messages_of(conversation_text(value)) == expected
    assert readable(conversation_text(expected)) == "user: a\nassistant: b"
    assert readable("[1]") == "[1]"
    for other in ([], "text", ["a", "b"], [{"role": "user"}], [expected[0], "b"], [{"a": "b"}], 3):
        assert conversation_text(other) is None
    for text in ("[{", "plain", '[{"a": 1}]', "[]"):
        assert messages_of(text) is None


def test_conversations_stand_alone():
    talk = conversation_text(messages([("user", "a")]))
    assert are_conversations([talk, talk]) and not are_conversations(["a", "b"])
    assert not are_conversations([]) and not are_conversations([None])
    with pytest.raises(DataError, match="1 of 3 texts are conversations, such as text 2"):
        are_conversations(["a", talk, "b"])
