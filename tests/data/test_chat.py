"""Conversations by a chat template: the text is the tokenizer's own, and each message is found."""

import pytest

from probekit.data.chat import check_template, render
from probekit.errors import BackboneError, DataError
from probekit.tasks.conversations import are_conversations, conversation_text, messages_of, readable
from tests import tiny

PLAIN = "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
TRIMMED = PLAIN.replace("m.content", "m.content.strip()")
DATED = "Today is Monday.\n" + TRIMMED
UNTHOUGHTFUL = PLAIN.replace("m.content", "m.content.split('</think>')[-1]")
LOUD = PLAIN.replace("m.content", "m.content.upper()")
STRICT = "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}" + PLAIN

CONVERSATIONS = [
    [("user", "Hello there"), ("assistant", "assistant"), ("user", "user"), ("assistant", "a")],
    [("user", "a"), ("assistant", "a"), ("user", "a")],
    [("user", "  blanks \n"), ("assistant", "<|end|>")],
    [("user", "{{ m.role }}"), ("assistant", "東京 😀"), ("tool", "{}"), ("assistant", "")],
]


@pytest.fixture
def tokenizer():
    return tiny.build_tokenizer("llama")


def messages(turns):
    return [{"role": role, "content": content} for role, content in turns]


@pytest.mark.parametrize("template", [PLAIN, TRIMMED, DATED, STRICT])
@pytest.mark.parametrize("turns", CONVERSATIONS)
def test_every_message_is_found_where_the_template_puts_it(tokenizer, template, turns):
    tokenizer.chat_template = template
    rendered = render(tokenizer, messages(turns), "one")
    assert rendered.text == tokenizer.apply_chat_template(messages(turns), tokenize=False)
    end = 0
    for (role, content), (said, start, stop) in zip(turns, rendered.turns, strict=True):
        assert said == role and rendered.text[start:stop].strip() == content.strip()
        head = f"<|{role}|>\n"
        assert rendered.text[end:start].endswith(head)
        assert rendered.text[end:start].count("<|") == (2 if end else 1)
        end = stop


def test_a_template_that_leaves_a_part_out(tokenizer):
    tokenizer.chat_template = UNTHOUGHTFUL
    turns = [("user", "1 + 1"), ("assistant", "2")]
    assert render(tokenizer, messages(turns), "one").turns
    turns = [("user", "1 + 1"), ("assistant", "<think>hm</think>2")]
    with pytest.raises(DataError, match=r"one: .* does not write a message of the role"):
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
        check_template(tokenizer, "mine")


def test_forms_of_conversations():
    expected = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for value in (
        expected,
        [{**expected[0], "name": "Ann"}, expected[1]],
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
