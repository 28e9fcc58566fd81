"""Makes the golden files of trainer/chat with the reference libraries.

    pip install jinja2==3.1.6 transformers==5.24.0
    python3 make_golden.py

snippets.golden.json: pieces of template language, each rendered by the
environment that transformers sets up for chat templates, or "error".
chats.golden.json: whole conversations rendered with the templates beside this
file, which are written for these tests in the formats of spec/models.md.
"""

import json

from transformers.utils.chat_template_utils import _compile_jinja_template as compiled

VARIABLES = {
    "messages": [
        {"role": "system", "content": " Be <b>brief</b> & kind.\n"},
        {"role": "user", "content": "naïve \"café\" 世界 'x'"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "add", "arguments": {"b": 1, "a": [2.0, True, None]}}}]},
    ],
    "n": 7, "x": 2.5, "big": 1e20, "tiny": 1e-7, "yes": True, "nothing": None, "empty": "", "word": "heLLo wOrld", "list": [3, 1, 2],
    "d": {"b": 1, "a": {"items": [1]}, "items": 5}, "names": ["Bob", "al", "Cy"], "lines": "a\n b\r\nc\n", "sep": "a, b,,c",
}

SNIPPETS = r"""
{{ n }} {{ x }} {{ big }} {{ tiny }} {{ yes }} {{ nothing }} [{{ empty }}] [{{ absent }}]
{{ 1e16 }} {{ 123456789.0 }} {{ 1.0e5 }} {{ 0.1 + 0.2 }} {{ 100 * 1.0 }} {{ 1_000 }}
{{ list }} {{ names }} {{ d }} {{ (1, 2) }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }} {{ [none, 'a"b', "it's", "both ' and \"", "é\n\t\\"] }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ -2 ** 2 }}
{{ 'a' + 'b' ~ 1 ~ none }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ -x }} {{ +n }}
{{ 1 if yes else 2 }} {{ 1 if no }} {{ 1 if false else 2 if false else 3 }}
{{ yes and 'a' or 'b' }} {{ '' or nothing or 0 }} {{ not yes }} {{ not '' }}
{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ yes == 1 }} {{ 'a' < 'b' }} {{ [1, 2] == [1, 2] }} {{ (1, 2) == [1, 2] }} {{ absent == absent }} {{ d == {'items': 5, 'b': 1, 'a': {'items': [1]}} }}
{{ 1 in list }} {{ 9 not in list }} {{ 'ell' in 'hello' }} {{ 'b' in d }} {{ none in [none] }}
{{ list[0] }} {{ list[-1] }} [{{ list[9] }}] {{ list[1:] }} {{ list[::-1] }} {{ list[:-1] }} {{ 'hello'[1:3] }} {{ 'héllo'[1] }} {{ 'hello'[::-2] }} {{ names[5:] }} {{ list[none:2] }}
{{ d.b }} {{ d['b'] }} {{ d['items'] }} {{ d.a['items'] }} [{{ d.zz }}] {{ d.a.get('items') }} {{ d.get('q') }} {{ d.get('q', 4) }}
{{ absent.x }}
{{ absent['x'] }}
{{ absent + 1 }}
{{ absent ~ 'x' }}|{{ absent is defined }}|{{ absent is none }}|{{ nothing is none }}|{{ nothing is defined }}|{{ nothing.x is defined }}
{{ d.x.y }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ 'a' < 1 }}
{{ 1 // 0 }}
{{ nosuch() }}
{{ raise_exception('stop') }}
{{ n is number }} {{ n is integer }} {{ x is float }} {{ 'a' is string }} {{ d is mapping }} {{ list is iterable }} {{ d is sequence }} {{ n is iterable }} {{ yes is boolean }} {{ yes is integer }} {{ yes is number }} {{ absent is iterable }} {{ yes is true }} {{ n is true }} {{ nothing is false }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ n is eq 7 }} {{ n is gt 3 }} {{ n is in [7] }} {{ n is not in [7] }} {{ n is not none }} {{ 'a' is not string and yes }} {{ range is callable }}
{{ word | upper }} {{ word | lower }} {{ word | title }} {{ word | capitalize }} {{ word.title() }} {{ "they're bill's" | title }} {{ "they're x-y (z" | title }} {{ "they're".title() }}
[{{ ' \t\u00a0a \n' | trim }}] [{{ 'xxaxx' | trim('x') }}] [{{ ' a '.strip() }}] [{{ 'xya'.lstrip('yx') }}] [{{ 'a\n\n'.rstrip('\n') }}] [{{ '\x1ca\x85'.strip() }}]
{{ 'hello'.startswith('he') }} {{ 'hello'.endswith(('x', 'lo')) }} {{ 'a.b.c'.split('.') }} {{ 'a.b.c'.split('.', 1) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ ' a  b '.split() }} {{ 'a b  c d'.split(None, 2) }} {{ sep.split(', ') }} {{ ''.split(',') }} {{ ''.split() }} {{ 'a b '.split(none, 1) }} {{ 'a.b'.split('.', -1) }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ 'aXbXc'.replace('X', '-') }} {{ 'aXbXc'.replace('X', '-', 1) }} {{ 'aXbXc' | replace('X', '') }} {{ 'ab'.replace('', '.') }} {{ 'abab'.count('ab') }} {{ 'héllo'.find('l') }} {{ 'x'.find('q') }} {{ ','.join(names) }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('bc') }}
{{ list | length }} {{ 'héé' | length }} {{ d | length }} {{ d | count }} {{ list | first }} {{ list | last }} {{ [] | first }}| {{ list | sort }} {{ list | sort(reverse=true) }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ list | reverse | list }} {{ 'abc' | reverse }} {{ list | join('-') }} {{ names | join }} {{ messages | join('/', attribute='role') }} {{ [1, 1, 'a', 'A'] | unique | list }}
{{ messages | map(attribute='role') | list }} {{ names | map('upper') | join(',') }} {{ [{'a': {'b': 1}}, {}] | map(attribute='a.b', default=0) | list }} {{ list | select('odd') | list }} {{ list | reject('gt', 1) | list }} {{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ messages | rejectattr('content') | map(attribute='role') | first }} {{ messages | selectattr('tool_calls') | list | length }} {{ [0, 1, ''] | select | list }}
{{ absent | default('z') }} {{ '' | default('z') }} {{ '' | default('z', true) }} {{ nothing | d('q', boolean=true) }} {{ absent | d }}|
{{ '12' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.9 | int }} {{ '3.9' | int }} {{ '2.5' | float }} {{ n | float }} {{ -3 | abs }} {{ 2.567 | round(1) }} {{ 2.5 | round }} {{ 5 | string + 'x' }} {{ 'abc' | list }} {{ d | list }}
{{ d | items | list }} {{ d.keys() | list }} {{ d.a.values() | list }} {{ d | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ 'a\nb\n\nc' | indent }} {{ 'a\nb' | indent(2, true) }}
{{ messages[2] | tojson }} {{ messages[0].content | tojson }} {{ [1.0, 1e20, none, true, 'é\u0007/"'] | tojson }} {{ {} | tojson }} {{ [] | tojson(indent=2) }}
{{ messages[2].tool_calls | tojson(indent=4) }} {{ d | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ 'é😀' | tojson(ensure_ascii=true) }}
{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem.role if loop.previtem }}{{ loop.nextitem.role if loop.nextitem is defined }}{{ loop.cycle('a', 'b') }};{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'né' %}[{{ c }}]{% endfor %}
{% for i in range(5) if i is odd %}{{ loop.index }}:{{ i }} {% else %}none{% endfor %}{% for i in [] %}x{% else %}none{% endfor %}{% for i in absent %}x{% endfor %}
{% for i in range(1, 10, 3) %}{{ i }}{% endfor %}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}{% for (a, b) in [[5, 6]] %}{{ a }}{{ b }}{% endfor %}{% for i in nothing %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for i in 3 %}{% endfor %}
{% set a = 1 %}{% for i in range(3) %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }}{% if yes %}{% set a = 9 %}{% endif %}{{ a }}
{% set ns = namespace(a=1, b='x') %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, e) = (3, 4) %}{{ c }}{{ e }}{% set t = 1, 2 %}{{ t }}{% set q %}in {{ n }}{% endset %}[{{ q }}]
{% macro f(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{{ n }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f() }} {{ f(1, 2, 3) | upper }}
{% macro f(k) %}{{ k }}{% if k > 0 %}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{% endmacro %}{{ f(b=2) }}
{% set v = 3 %}{% macro f() %}{{ v }}{{ w }}{% endmacro %}{% for w in [1] %}{{ f() }}{% endfor %}
{% if n > 5 and x %}a{% elif yes %}b{% else %}c{% endif %}{% if absent %}a{% elif nothing %}b{% else %}c{% endif %}{% if '' %}{% endif %}
a {# comment {{ n }} #} b{#- x -#} c {#+ #}
{% raw %}{{ n }} {% if %}{% endraw %}{%- raw -%} {{ x }} {%- endraw %}.
{{- n -}} {{ n -}}  x {{- n }} {%- if yes -%}  y  {%- endif %} z
{% generation %}a{{ n }}{% endgeneration %}
{{ "a" "b" }} {{ 'it\'s' }} {{ "tab\there \\ \x41 \u00e9 \q" }} {{ '%' }} {{ '}}' }} {{ {'a': {'b': 1}}.a.b }} {{ {'x': 1}['x'] }}
{{ n }}{{ n | string | length }}{{ ('a', 'b')[1] }}{{ (1 + 2) * 3 }}{{ [1, 2,] }}{{ messages[0]['role'][0] }}{{ messages[-1].tool_calls[0].function.arguments.a }}
{{ true }}{{ True }}{{ none }}{{ None }}{{ false }}{{ dict(a=1, b=2) }}
{% for m in messages %}{{ '<|' ~ m.role ~ '|>' }}{% if m.content is string %}{{ m.content | trim }}{% endif %}{% endfor %}
{{ messages[0].content.split('<b>')[-1].lstrip('\n') }} {{ 'a</think>b'.split('</think>')[0].rstrip('\n').split('<think>')[-1] }}
""".strip("\n").split("\n")

# Snippets of several lines, where trim_blocks and lstrip_blocks matter.
BLOCKS = [
    "  {% if yes %}\n    a\n  {% else %}\n b\n  {% endif %}\nc\n",
    "{% for i in list %}\n  {{ i }}\n{% endfor %}\n\n",
    "x {% if yes %} y {% endif %} z\n {# gone #}\nq\n",
    "{%- if yes %}\n\n  a\n{%- endif -%}\n\n  b",
    "  {%+ if yes %}a{% endif +%}\nb\n\t{% set z = 1 %}\n",
    "a\n\n  {%- set z = 1 -%}\n\n  b\n  {{ z }}  \n",
    "{{ n }}\n{{ n }}\n", "{{ n }} {% if yes %}y{% endif %} {% if yes %}z{% endif %}",
    "{% if yes %}\r\na\r\n{% endif %}\r\n", "  {#- a -#}  \n  b  {% raw %}\n {{ x }}\n {% endraw %}\n c",
    "   {% set a = 1 %}   \n   {{ a }}", "{% if yes %}{# c #}\n{% endif %}\n\n", "\n\n{% set a = 1 %}\n\n{{ a }}\n\n",
    "{% macro m(a) %}\n  <{{ a }}>\n{% endmacro %}\n{{ m(1) }}\n{{ m(2) }}",
    "{% for i in range(2) %}\n{% if i %}\n  odd\n{% endif %}\n{% endfor %}",
    "{%- for m in messages -%}\n  {%- if m.role == 'user' -%}\n    U: {{ m.content }}\n  {%- endif -%}\n{%- endfor -%}\n",
]

CALL = {"type": "function", "function": {"name": "add", "arguments": {"b": 2, "a": 1.0, "note": "x < y & \"z\"", "list": [1, None, True]}}}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds <numbers> & more.", "parameters": {
    "type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "number"}}, "required": ["b", "a"]}}}]
CHATS = {
    "question": [{"role": "user", "content": "Where?"}],
    "system": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Where? \n"}],
    "turns": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb"}, {"role": "user", "content": "c"}],
    "tools": [{"role": "system", "content": "S"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
              {"role": "tool", "content": "3"}, {"role": "tool", "content": "4"}, {"role": "assistant", "content": "seven"}, {"role": "user", "content": "<tool_response>x</tool_response>"}],
}


def main():
    out = []
    for source in SNIPPETS + BLOCKS:
        try:
            out.append({"source": source, "text": compiled(source).render(**VARIABLES)})
        except Exception as e:
            out.append({"source": source, "error": type(e).__name__ + ": " + str(e)})
    with open("snippets.golden.json", "w") as f:
        json.dump({"variables": VARIABLES, "cases": out}, f, ensure_ascii=False, indent=0)
        f.write("\n")
    chats = []
    for name in ("plain", "hermes", "xml"):
        with open(name + ".jinja") as f:
            template = compiled(f.read())
        for chat, messages in CHATS.items():
            for tools in (None, TOOLS):
                for prompt in (True, False):
                    case = {"template": name, "chat": chat, "messages": messages, "tools": tools, "prompt": prompt}
                    try:
                        case["text"] = template.render(messages=messages, tools=tools, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>")
                    except Exception as e:
                        case["error"] = str(e)
                    chats.append(case)
    with open("chats.golden.json", "w") as f:
        json.dump(chats, f, ensure_ascii=False, indent=0)
        f.write("\n")


main()
