"""Chat templates, friendly and hostile ones."""

from __future__ import annotations

import datetime

import pytest

from zyx.errors import FormatError
from zyx_llm.chat import Template

TALK = [{"role": "user", "content": "Hi {{ x }}"}, {"role": "assistant", "content": "Ho"}]
DOUBLED = "{% set n = namespace(x='x') %}{% for i in range(99) %}{% set n.x = ? %}{% endfor %}{{ n.x }}"
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def test_a_talk_is_written_as_the_template_says():
    template = Template(CHATML)
    expected = "<|im_start|>user\nHi {{ x }}<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n"
    assert template.text(TALK, asks=False) == expected
    assert template.text(TALK) == expected + "<|im_start|>assistant\n"


def test_what_templates_use_is_there():
    first = "{% if loop.index0 == 1 %}{% break %}{% endif %}"
    text = "{{ bos_token }}{% for m in messages %}" + first + "{{ m | tojson }}{% endfor %}"
    assert Template(text, bos="<s>").text(TALK) == '<s>{"role": "user", "content": "Hi {{ x }}"}'
    assert Template("{{ strftime_now('%Y') }}").text([]) == str(datetime.datetime.now().year)
    assert Template("{{ tools | length }}").text([], tools=[1, 2]) == "2"
    assert Template("{% for i in range(3) %}\n  {% if i %}\nx\n  {% endif %}\n{% endfor %}").text([]) == "x\nx\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% for %}", "is none, in line 1"),
        ("a\n{{ b", "is none, in line 2"),
        ("{% if x %}", "is none"),
    ],
)
def test_what_is_no_template_is_refused(source, message):
    with pytest.raises(FormatError, match=message):
        Template(source)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{{ raise_exception('roles alternate') }}", "refuses the talk: roles alternate"),
        ("{{ messages[7].content.x }}", "fails: UndefinedError"),
        ("{{ 1 / 0 }}", "fails: ZeroDivisionError"),
        ("{{ ''.__class__.__mro__ }}", "fails: SecurityError"),
        ("{{ messages.append(1) }}", "fails: SecurityError"),
        ("{% for i in range(10**9) %}{% endfor %}", "fails: OverflowError"),
        ("{{ 'x' * 10**9 }}", "of length 1000000000; 16777216 is allowed"),
        ("{{ [1] * 10**9 }}", "of length 1000000000"),
        ("{{ 10 ** 10000 }}", "to the power 10000"),
        ("{{ '%1000000000d' % 1 }}", "formats by %"),
        ("{{ '{:1000000000d}'.format(1) }}", "calls format of a text"),
        ("{{ '{:{}}'.format(1, 1000000000) }}", "calls format of a text"),
        ("{{ 'x'.ljust(1000000000) }}", "calls ljust of a text with a number beyond 65536"),
        ("{{ 'x' | center(1000000000) }}", "No filter named 'center'"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}", "come to an end"),
        (DOUBLED.replace("?", "n.x ~ n.x"), "of length 33554432"),
        (DOUBLED.replace("?", "n.x + n.x"), "of length 33554432"),
        (DOUBLED.replace("?", "[n.x, n.x] | join"), "of length 33554432"),
        (DOUBLED.replace("?", "n.x.replace('x', 'xx')"), "of length"),
        (DOUBLED.replace("?", "n.x | replace('x', 'xx')"), "of length"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "fails: RecursionError"),
    ],
)
def test_a_template_cannot_break_out_or_go_on_for_ever(source, message):
    with pytest.raises(FormatError, match=message):
        Template(source).text(TALK)


def test_texts_are_joined_and_replaced():
    assert Template("{{ 'a' ~ 1 ~ none }} {{ 'aba'.replace('a', 'c', 1) }} {{ ','.join(['x', 'y']) }}").text([]) == (
        "a1None cba x,y"
    )
    assert Template("{{ [1, 2] | join('-') }} {{ 'aba' | replace('a', '') }}").text([]) == "1-2 b"


def test_texts_are_formatted_and_padded_within_reason():
    assert Template("{{ '{:>4}|{}'.format(7, 'x') }}{{ 'x'.ljust(3) }}").text([]) == "   7|xx  "
