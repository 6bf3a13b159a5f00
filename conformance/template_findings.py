"""Holds what `ggmill template lint` finds in chat templates against Jinja as transformers sets it up.

    python template_findings.py TEMPLATES

renders each template with a finding over the conversation that the finding names, and says whether it is true: a template fails (GG2201), does what the sandbox
refuses (GG2203), gives another text on another day (GG2211), or a longer conversation does not begin with the text of the shorter one, from the same byte on
(GG2212). TEMPLATES is a directory; GGMILL is our binary. Needs transformers. Vocabularies are not looked at.
"""

import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jinja2
import transformers.utils.chat_template_utils as chat_templates

QUESTION = {"role": "user", "content": "Is it so?"}
ANSWER = {"role": "assistant", "content": "Yes, certainly."}
TOOLS = [{"type": "function", "function": {"name": "find_numbat", "description": "Finds one.", "parameters": {
    "type": "object", "properties": {"place": {"type": "string", "description": "Where."}}, "required": ["place"]}}}]


def called(arguments):
    """A call of a function and its result."""
    call = {"id": "call00001", "type": "function", "function": {"name": "find_numbat", "arguments": arguments}}
    return [QUESTION, {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "name": "find_numbat", "tool_call_id": "call00001", "content": "Wombat result."}]


def rendered(template, messages, tools=None, prompt=True, day=None):
    """The text, or the exception."""
    try:
        compiled = chat_templates._compile_jinja_template(template)
        if day:
            compiled.environment.globals["strftime_now"] = day.strftime
            compiled = compiled.environment.from_string(template)
        return compiled.render(messages=messages, tools=tools, documents=None, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>")
    except Exception as error:
        return error


def is_true(finding, template):
    """Whether Jinja shows what a finding says; none where this does not know how to ask."""
    name = re.search(r"\(conversation: (.*)\)$", finding["message"]).group(1)
    results = {
        "question": lambda: [rendered(template, [QUESTION])],
        "tools": lambda: [rendered(template, [QUESTION], TOOLS)],
        "tool call and result": lambda: [rendered(template, called(arguments), TOOLS) for arguments in ({"place": "here"}, '{"place": "here"}')],
        "turns": lambda: [rendered(template, [QUESTION, ANSWER], prompt=False), rendered(template, [QUESTION, ANSWER, {**QUESTION, "content": "And now?"}, ANSWER], prompt=False)],
    }[name]()
    match finding["code"]:
        case "GG2201":
            return all(isinstance(result, Exception) for result in results)
        case "GG2203":
            return isinstance(results[0], jinja2.exceptions.SecurityError)
        case "GG2211":
            texts = {rendered(template, [QUESTION], day=datetime.datetime(2024, 1, day)) for day in (2, 10)}
            return len(texts) == 2 and all(isinstance(text, str) for text in texts)
        case "GG2212":
            shorter, longer = results[0].rstrip().encode(), results[1].encode()
            pairs = enumerate(zip(shorter, longer))
            same = next((at for at, (one, other) in pairs if one != other), min(len(shorter), len(longer)))
            return not longer.startswith(shorter) and f"from byte {same}:" in finding["message"]
    return None


def main():
    output = subprocess.run([os.environ["GGMILL"], "template", "lint", "--json", sys.argv[1]], capture_output=True, check=False).stdout
    counts = {}
    for file in json.loads(output)["files"]:
        for finding in file["findings"]:
            verdict = {True: "true", False: "false", None: "not compared"}[is_true(finding, Path(file["path"]).read_text())]
            counts[verdict] = counts.get(verdict, 0) + 1
            print(f"{verdict}: {Path(file['path']).name}: {finding['code']} {finding['message']}")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    sys.exit(counts.keys() != {"true"})


if __name__ == "__main__":
    main()
