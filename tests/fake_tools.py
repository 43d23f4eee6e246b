"""How the fake models use tools, by plan, and what the real API refuses of tool messages.

In schema mode the tools' names are the choices of the field `tool`; what comes back are users'
messages that begin with RESULT.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fake_plan import ToolPlay, digest
from fake_refusals import Refused
from fake_voices import Answering, speak

Body = Mapping[str, Any]
Call = tuple[str, str]
RESULT = "<result tool="
COMPLAINT = "the answer is no"
FIT = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SKILL = re.compile(r"^- (\w+): ", re.MULTILINE)
NOTE = {"action": "add", "id": None, "category": "evidence", "text": "says that nights are short"}
EXAMPLES: Mapping[str, Body] = {
    "read_interview_notepad": {},
    "update_interview_notepad": {"actions": [NOTE]},
    "lookup_icd_category": {"category": "Mood"},
    "lookup_icd_disorder": {"code": "6B00"},
    "safety_stop": {"kind": "acute_medical", "reason": "tells of a collapse just now"},
}
BAD_IDS: Mapping[str, Body] = {
    "update_interview_notepad": {
        "actions": [{"action": "edit", "id": "N999", "category": None, "text": "nothing"}]
    },
    "load_skill": {"skill_id": "be_nice"},
    "lookup_icd_category": {"category": "Weather"},
    "lookup_icd_disorder": {"code": "9Z99"},
}


def played(body: Body, play: ToolPlay) -> list[Call]:
    """Return what a model calls now: names and arguments, none where it answers."""
    names = [name for name in _offered(body) if name]
    since = _since(body["messages"])
    if not names or body.get("tool_choice") == "none":
        return []
    harmless = [name for name in names if name != "safety_stop"] or names
    match play:
        case "endless":
            return [_example(harmless[since % len(harmless)], body)]
        case "many":
            return [_example(harmless[n % len(harmless)], body) for n in range(0 if since else 50)]
        case _:
            calls = _first(body, play, names)
            by_schema = "tools" not in body
            return calls[since : since + 1] if by_schema else calls if not since else []


def told(model: str, body: Body, play: ToolPlay, *, note: str = "") -> dict[str, Any] | None:
    """Return the message of a model that may use tools; None where a form is due at once."""
    form_is_due = body.get("tool_choice") == "none" and "response_format" in body
    if form_is_due or not list(_offered(body)):
        return None
    calls, messages = played(body, play), body["messages"]
    if note:
        written = json.dumps(note)[1:-1]
        calls = [(name, given.replace(str(NOTE["text"]), written)) for name, given in calls]
    text = speak("gemma", model, [m for m in messages if m["role"] != "tool"], body.get("seed"))
    if "tools" in body:
        listed = [
            {"id": f"fake_{n}", "type": "function", "function": {"name": name, "arguments": given}}
            for n, (name, given) in enumerate(calls)
        ]
        return {"content": None, "tool_calls": listed} if calls else {"content": text}
    fields = dict.fromkeys(_schema(body)["properties"])
    if not calls:
        return {"content": json.dumps(fields | {"tool": "none", "message": text})}
    name, given = calls[0]
    if play == "malformed" and not str(messages[-1]["content"]).startswith(COMPLAINT):
        return {"content": f'{{"tool": "{name}", '}
    if play == "malformed":
        return {"content": json.dumps(fields | {"tool": "none", "message": text})}
    return {"content": json.dumps(fields | {"message": ""} | json.loads(given) | {"tool": name})}


def refuse_tools(body: Body) -> None:
    """Raise what the paid API refuses of tools and their messages."""
    if "tool_choice" in body and not body.get("tools"):
        raise Refused(400, "'tool_choice' is only allowed when 'tools' are specified.")
    for tool in body.get("tools") or ():
        function = tool["function"]
        fields = function["parameters"].get("properties", {})
        closed = function["parameters"].get("additionalProperties") is False
        if function.get("strict") and not (
            closed and sorted(fields) == sorted(function["parameters"].get("required", ()))
        ):
            raise Refused(400, f"Invalid schema for function '{function['name']}'.")
        _refuse_name(function["name"])
    owed: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in owed:
                raise Refused(
                    400,
                    "Invalid parameter: messages with role 'tool' must be a response to a "
                    "preceeding message with 'tool_calls'.",
                )
            owed.remove(message["tool_call_id"])
            continue
        _refuse_owed(owed)
        if message.get("content") is None and not message.get("tool_calls"):
            raise Refused(400, "Invalid value for 'content': expected a string, got null.")
        for call in message.get("tool_calls", ()):
            _refuse_name(call["function"]["name"])
            owed.append(call["id"])
    _refuse_owed(owed)


def _refuse_name(name: str) -> None:
    if not FIT.fullmatch(name):
        raise Refused(400, f"Invalid 'function.name': '{name}' does not match '^[a-zA-Z0-9_-]+$'.")


def _refuse_owed(owed: Sequence[str]) -> None:
    if owed:
        raise Refused(
            400,
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            f"{', '.join(owed)}",
        )


def _offered(body: Body) -> Iterator[str]:
    for tool in body.get("tools") or ():
        yield tool["function"]["name"]
    if "tools" not in body and {"tool", "message"} <= set(_schema(body).get("properties", ())):
        yield from (name for name in _schema(body)["properties"]["tool"]["enum"] if name != "none")
        if _schema(body)["properties"]["tool"]["enum"] == ["none"]:
            yield ""


def _schema(body: Body) -> Body:
    form = body.get("response_format") or {}
    schema: Body = form.get("json_schema", {}).get("schema", {})
    return schema


def _since(messages: Sequence[Body]) -> int:
    """Return how many results stand behind the person's last message."""
    count = 0
    for message in reversed(messages):
        result = str(message["content"]).startswith(RESULT)
        if message["role"] == "tool" or (message["role"] == "user" and result):
            count += 1
        elif message["role"] == "user" and not str(message["content"]).startswith(COMPLAINT):
            return count
    return count


def _first(body: Body, play: ToolPlay, names: list[str]) -> list[Call]:
    """Return the calls before one answer."""
    match play:
        case "unknown":
            return [("consult the oracle", "{}")]
        case "bad_ids":
            return [(name, json.dumps(BAD_IDS[name])) for name in names if name in BAD_IDS]
        case "malformed":
            return [(names[0], '{"actions": [')]
        case "stop":
            return [_example("safety_stop", body)] if "safety_stop" in names else []
        case "usual":
            harmless = [name for name in names if name != "safety_stop"]
            key = digest(json.dumps([m["content"] for m in body["messages"] if m["content"]]))
            chosen = [*harmless[1:2], harmless[key % len(harmless)]] if harmless else []
            return [_example(name, body) for name in dict.fromkeys(chosen)]
        case _:
            return []


def _example(name: str, body: Body) -> Call:
    if name == "load_skill":
        skills = SKILL.findall(str(body["messages"][0]["content"])) or ["none"]
        key = digest(len(body["messages"]))
        return name, json.dumps({"skill_id": skills[key % len(skills)]})
    if name in EXAMPLES:
        return name, json.dumps(EXAMPLES[name])
    for tool in body.get("tools") or ():
        if tool["function"]["name"] == name:
            return name, json.dumps(Answering("", (), 0).fill(tool["function"]["parameters"]))
    return name, "{}"
