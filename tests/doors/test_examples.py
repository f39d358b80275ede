"""What the pages show a newcomer is run as it stands there."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import anthropic
import httpx2
import pytest
from anthropic.tools import BetaAbstractMemoryTool, ToolError

from tests.scripted_claude import ScriptedClaude, calls, says
from tests.world import Caller

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EXAMPLES = (ROOT / "docs" / "examples.md").read_text()


def fence(page: str, language: str, holding: str) -> str:
    fences = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (found,) = [code for code in fences if holding in code]
    return found


def client_of(served: str, caller: Caller) -> httpx2.Client:
    return httpx2.Client(base_url=served, headers={"Authorization": f"Bearer {caller.key}"})


def the_tool(http: httpx2.Client, user: str) -> Any:
    """The class that the README shows, of this user."""
    shown = fence(README, "python", "class UsermemMemory")
    assert len(shown.splitlines()) <= 16
    known: dict[str, Any] = {
        "BetaAbstractMemoryTool": BetaAbstractMemoryTool,
        "ToolError": ToolError,
        "httpx2": httpx2,
        "quote": quote,
    }
    exec(shown, known)  # noqa: S102 - the project's own page
    return known["UsermemMemory"](http, user)


async def test_the_sdks_tool_runner_keeps_notes_through_the_class_of_the_readme(
    served: str, alice: Caller
):
    def run() -> tuple[str, list[dict[str, Any]]]:
        with ScriptedClaude() as server, client_of(served, alice) as http:
            server.script(
                calls("memory", command="view", path="/memories"),
                calls("memory", command="create", path="/memories/a.md", file_text="Likes tea."),
                calls("memory", command="create", path="/memories/a.md", file_text="again"),
                calls("memory", command="str_replace", path="/memories/a.md", old_str=" tea"),
                says("I'll remember."),
            )
            claude = anthropic.Anthropic(api_key="key", base_url=server.url)
            last = claude.beta.messages.tool_runner(
                model="claude-sonnet-5-5",
                max_tokens=100,
                messages=[{"role": "user", "content": "I like tea."}],
                tools=[the_tool(http, "Ana/ž")],
            ).until_done()
            assert server.requests[0].body["tools"] == [
                {"type": "memory_20250818", "name": "memory"}
            ]
            results = [request.body["messages"][-1]["content"] for request in server.requests[1:]]
        (block,) = last.content
        assert block.type == "text"
        return block.text, [result for (result,) in results]

    text, results = await asyncio.to_thread(run)

    assert text == "I'll remember."
    assert [bool(result.get("is_error")) for result in results] == [False, False, True, False]
    assert results[2]["content"] == "File /memories/a.md already exists"
    files = alice.world.rows(
        "select content from memory_file where tenant_id = %s", alice.tenant_id
    )
    assert files == [("Likes.",)]


def test_the_line_for_claude_code_names_what_the_service_takes():
    (line,) = [row for row in README.splitlines() if row.startswith("claude mcp add")]

    assert "--transport http usermem http://127.0.0.1:8000/mcp" in line
    assert '--header "Authorization: Bearer $KEY"' in line
    assert '--header "Usermem-User: dana"' in line


BLOCK = fence(EXAMPLES, "text", "<user_memory>").rstrip("\n")


async def talked(alice: Caller, session: str) -> None:
    """Let the worker read what an example has posted."""
    await alice.world.drain()
    state = await alice.of("dana").get(f"/sessions/{session}")
    assert state.json()["status"] == "done", state.text


async def test_the_loop_with_anthropics_sdk_remembers_as_it_says(
    served: str, alice: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MEMORY_URL", served)
    monkeypatch.setenv("MEMORY_KEY", alice.key)
    with ScriptedClaude() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        shown: dict[str, Any] = {"__name__": "example"}
        code = fence(EXAMPLES, "python", "import anthropic")
        exec(code, shown)  # noqa: S102 - the project's own page
        monday, friday = re.findall(r"^    (chat\(.*\))$", code, re.MULTILINE)
        await asyncio.to_thread(eval, monday, shown)
        await talked(alice, "monday")
        await asyncio.to_thread(eval, friday, shown)

        first, second = (request.body["system"] for request in server.requests)
        assert [part["text"] for part in first] == [shown["INSTRUCTIONS"]]
        assert second[0] == first[0]
        assert "".join(part["text"] for part in second[1:]) == BLOCK
        shown["claude"].close()
        shown["memory"].close()


async def test_the_loop_with_openais_sdk_places_the_block_and_posts_the_turns(
    served: str, alice: Caller, monkeypatch: pytest.MonkeyPatch
):
    """The SDK is not installed here: a stand-in for the one call that the example makes of it."""
    asked: list[list[dict[str, str]]] = []

    def create(*, model: str, messages: list[dict[str, str]]) -> Any:
        asked.append(messages)
        message = SimpleNamespace(content="All right.")
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])

    completions = SimpleNamespace(completions=SimpleNamespace(create=create))
    stand_in = SimpleNamespace(OpenAI=lambda: SimpleNamespace(chat=completions))
    monkeypatch.setitem(sys.modules, "openai", stand_in)
    monkeypatch.setenv("MEMORY_URL", served)
    monkeypatch.setenv("MEMORY_KEY", alice.key)
    shown: dict[str, Any] = {}
    exec(fence(EXAMPLES, "python", "from openai"), shown)  # noqa: S102 - the project's own page

    said = "Hi, I'm Dana, I live in Lisbon. I prefer window seats."
    await asyncio.to_thread(shown["chat"], "dana", "monday", [said])
    await talked(alice, "monday")
    await asyncio.to_thread(shown["chat"], "dana", "friday", ["Which seat do I prefer?"])
    shown["memory"].close()

    assert [turn["role"] for turn in asked[0]] == ["system", "user"]
    assert [turn["content"] for turn in asked[1][:2]] == [shown["INSTRUCTIONS"], BLOCK]


@pytest.mark.skipif(shutil.which("curl") is None, reason="written for curl")
async def test_the_calls_with_curl_print_what_is_shown(served: str, alice: Caller):
    part = EXAMPLES.split("\n## curl\n", 1)[1]
    start, wait, tool = re.findall(r"^```sh\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
    receipt, answers = re.findall(r"^```json\n(.*?)^```$", part, re.DOTALL | re.MULTILINE)
    define, post = start.split("\n\n")

    async def run(script: str) -> str:
        ran = await asyncio.to_thread(
            subprocess.run,
            ["/bin/bash", "-euo", "pipefail"],
            input=f"{define}\n{script}",
            env={**os.environ, "MEMORY_URL": served, "MEMORY_KEY": alice.key},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout

    posted = json.loads(await run(post))
    await talked(alice, "monday")

    assert {**posted, "extract_after": None} == {**json.loads(receipt), "extract_after": None}
    assert await run(wait) == BLOCK
    assert await run(tool) == answers.replace("}\n{", "}{").rstrip("\n")
