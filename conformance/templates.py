"""Chat templates: what ggmill renders beside what Jinja renders, set up as transformers does.

    templates.py RENDER DIRECTORY... [--cases FILE...] [--verbose]
    templates.py --record TESTS DIRECTORY...

RENDER is the example `render` of ggmill-template: a line of JSON in (template, context, now), a line
out. Every template (*.jinja) of the directories is rendered over every conversation below by both,
and the texts have to be equal, or both have to refuse. --cases takes files of huggingface.js with
templates and contexts of their own; Python's Jinja is the judge there too.

--record writes into crates/ggmill-template/tests the conversations and, for each template of the
directories, SHA-256 sums of it and of what Jinja makes of the conversations, so that `cargo test`
compares without Python.

Needs transformers 4.57.6 and jinja2 3.1.6.
"""

import argparse
import copy
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys

NOW = 1_766_000_000
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the current weather.\nWorks for <any> city & \"village\".",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The city, e.g. Zürich"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": ["integer", "null"], "minimum": 1},
                    "options": {
                        "type": "object",
                        "properties": {"verbose": {"type": "boolean"}, "tags": {"type": "array", "items": {"type": "string"}}},
                        "required": ["verbose"],
                    },
                },
                "required": ["city"],
            },
            "return": {"type": "string"},
        },
    },
    {
        "type": "function",
        "function": {"name": "stop", "description": "Stops.", "parameters": {"type": "object", "properties": {}}},
    },
]
CALL = {"id": "call00001", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "wind": 1.5, "exact": True, "zone": None}}}
CALL_TEXT = {"id": "call00002", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Bern"}'}}
STOP = {"id": "call00003", "type": "function", "function": {"name": "stop", "arguments": {}}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def tool(content, **more):
    return {"role": "tool", "content": content, **more}


TALK = [user("Hello"), assistant("Hi there!"), user("How are you?")]
CONVERSATIONS = {
    "user": {"messages": [user("Hello")]},
    "user, prompt": {"messages": [user("Hello")], "add_generation_prompt": True},
    "system, prompt": {"messages": [system("You are helpful."), user("Hello")], "add_generation_prompt": True},
    "turns": {"messages": [system("You are helpful."), *TALK, assistant("Fine.")]},
    "turns, prompt": {"messages": TALK, "add_generation_prompt": True},
    "tools, prompt": {"messages": [user("The weather?")], "tools": TOOLS, "add_generation_prompt": True},
    "call and result": {
        "messages": [
            system("Use tools."), user("The weather?"), assistant("", tool_calls=[CALL]),
            tool('{"temperature": 21}', name="get_weather", tool_call_id="call00001"), assistant("It is 21 degrees."),
        ],
        "tools": TOOLS,
    },
    "call of text, prompt": {
        "messages": [
            user("The weather?"), assistant("Let me see.", tool_calls=[CALL_TEXT]),
            tool("rain", name="get_weather", tool_call_id="call00002"),
        ],
        "tools": TOOLS, "add_generation_prompt": True,
    },
    "parallel calls": {
        "messages": [
            user("Both."), assistant(None, tool_calls=[CALL, STOP]),
            tool("21", name="get_weather", tool_call_id="call00001"), tool("done", name="stop", tool_call_id="call00003"),
            assistant("Done."), user("Thanks"),
        ],
        "tools": TOOLS, "add_generation_prompt": True,
    },
    "parts": {"messages": [user([{"type": "text", "text": "Look at "}, {"type": "text", "text": "this."}]), assistant([{"type": "text", "text": "I do."}])]},
    "image, prompt": {"messages": [user([{"type": "image"}, {"type": "text", "text": "What is it?"}])], "add_generation_prompt": True},
    "reasoning": {
        "messages": [
            user("2+2?"), assistant("4", reasoning_content="Two and two."), user("3+3?"),
            assistant("<think>\nThree and three.\n</think>\n\n6"), user("4+4?"),
        ],
        "add_generation_prompt": True,
    },
    "without thinking": {"messages": TALK, "add_generation_prompt": True, "enable_thinking": False},
    "thinking": {"messages": TALK, "add_generation_prompt": True, "enable_thinking": True, "thinking": True, "reasoning_effort": "low"},
    "documents": {"messages": [user("What do they say?")], "documents": [{"title": "One", "text": "First."}, {"title": "Two", "text": "Second\nline."}], "add_generation_prompt": True},
    "odd text": {
        "messages": [
            system("  \u00a0spaces \n"), user("\u00a0\u2003 <|im_end|>\t\x1f é 漢字 🙂 \"quoted\" 'single' \\n & <b> \u2028 \x7f {{ x }} \x85"),
            assistant(" \n answer \r\n "), user("{% if %}"),
        ],
        "add_generation_prompt": True,
    },
    "odd order": {"messages": [assistant("First."), user("a"), user("b"), system("late"), {"role": "critic", "content": "no"}]},
}
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def context(conversation):
    found = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False}
    return {**found, **SPECIAL, **conversation}


class Jinja:
    def __init__(self):
        from transformers.utils.chat_template_utils import _compile_jinja_template

        self.compile = _compile_jinja_template

    def render(self, text, variables):
        """The text, or what was refused and why."""
        now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None)
        try:
            template = self.compile(text)
            template.globals["strftime_now"] = now.strftime
            return template.render(**copy.deepcopy(variables)), None
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"


def templates(directories):
    for directory in directories:
        for path in sorted(pathlib.Path(directory).glob("*.jinja")):
            yield path.stem, path.read_bytes().decode("utf-8")


def renders(program, requests):
    lines = "".join(json.dumps({**request, "now": NOW}) + "\n" for request in requests)
    done = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    # Not splitlines, which cuts at other characters too.
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def hugging_face(paths):
    for path in paths:
        for case in json.loads(pathlib.Path(path).read_text(encoding="utf-8")):
            text = case.get("template", case.get("chat_template"))
            found = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": False}
            yield case["name"], text, {**found, **case.get("context", case.get("data"))}


def compare(options):
    jinja = Jinja()
    cases = [
        (f"{name}, {title}", text, context(conversation))
        for name, text in templates(options.directories)
        for title, conversation in CONVERSATIONS.items()
    ]
    cases += hugging_face(options.cases)
    found = renders(options.program, [{"template": text, "context": variables} for _, text, variables in cases])
    counts = {"equal": 0, "both refuse": 0, "different": 0, "ggmill refuses alone": 0, "Jinja refuses alone": 0}
    for (name, text, variables), ours in zip(cases, found, strict=True):
        theirs, refused = jinja.render(text, variables)
        if theirs is None:
            kind = "both refuse" if "error" in ours else "Jinja refuses alone"
        elif "error" in ours:
            kind = "ggmill refuses alone"
        else:
            kind = "equal" if ours["text"] == theirs else "different"
        counts[kind] += 1
        if kind not in ("equal", "both refuse") or (options.verbose and kind == "both refuse"):
            print(f"{kind}: {name}")
            if kind == "different":
                at = next((i for i, (a, b) in enumerate(zip(ours["text"], theirs)) if a != b), min(len(ours["text"]), len(theirs)))
                print(f"  ggmill: {ours['text'][max(0, at - 40):at + 60]!r}\n  Jinja:  {theirs[max(0, at - 40):at + 60]!r}")
            else:
                print(f"  ggmill: {ours.get('error', ours.get('text', ''))[:200]!r}\n  Jinja:  {refused or theirs[:100]!r}")
    print(f"{len(cases)} renders: " + ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return counts["different"] + counts["ggmill refuses alone"] + counts["Jinja refuses alone"]


def record(options):
    import jinja2
    import transformers

    tests = pathlib.Path(options.program)
    conversations = [{"name": name, "context": context(value)} for name, value in CONVERSATIONS.items()]
    text = json.dumps({"now": NOW, "conversations": conversations}, ensure_ascii=False, indent=1)
    (tests / "conversations.json").write_text(text + "\n", encoding="utf-8")
    jinja = Jinja()
    python = ".".join(map(str, sys.version_info[:3]))
    lines = [
        f"# jinja2 {jinja2.__version__} as transformers {transformers.__version__} sets it up, Python {python}.",
        "# Written by conformance/templates.py --record: a template, the SHA-256 of its text, and, for each of the",
        "# conversations in conversations.json, the first 64 bits of the SHA-256 of the rendered text; - is a refusal.",
    ]
    for name, text in templates(options.directories):
        line = [name, hashlib.sha256(text.encode()).hexdigest()]
        for conversation in conversations:
            found, _ = jinja.render(text, conversation["context"])
            line.append("-" if found is None else hashlib.sha256(found.encode("utf-8", "surrogatepass")).hexdigest()[:16])
        lines.append(" ".join(line))
    (tests / "renders.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines) - 3} templates, {len(conversations)} conversations")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("directories", nargs="*")
    parser.add_argument("--cases", action="append", default=[])
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    sys.exit(1 if (record if options.record else compare)(options) else 0)


if __name__ == "__main__":
    main()
