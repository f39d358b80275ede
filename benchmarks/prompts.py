"""What a conversation's prompts cost, by where the memory block stands and how often it changes.

Priced as Anthropic does: a token read from the cache counts a tenth, one written to it five
quarters. The caller's system prompt is warm from other users' conversations; a cache serves the
longest unchanged beginning of a prompt, so whatever changes makes all that follows it new.
"""

import os
from typing import Any, Final

from app.memory.render import estimate_tokens

TURNS: Final = 20
SYSTEM_TOKENS: Final = 1_500
QUESTION_TOKENS, ANSWER_TOKENS = 60, 180
READ: Final = 0.1
WRITE: Final = 1.25


def price(block_tokens: int) -> dict[str, float]:
    """Give the input tokens paid for a conversation in each arrangement, in full-price tokens."""
    in_place = on_top = again = 0.0
    for turn in range(TURNS):
        history = turn * (QUESTION_TOKENS + ANSWER_TOKENS)
        new = QUESTION_TOKENS + (ANSWER_TOKENS if turn else 0)
        known = history - (ANSWER_TOKENS if turn else 0)
        if turn == 0:
            # On top, the block is a beginning that no other conversation shares.
            in_place += READ * SYSTEM_TOKENS + WRITE * (block_tokens + new)
            on_top += WRITE * (SYSTEM_TOKENS + block_tokens + new)
            again += READ * SYSTEM_TOKENS + WRITE * (block_tokens + new)
        else:
            frozen = READ * (SYSTEM_TOKENS + block_tokens + known) + WRITE * new
            in_place += frozen
            on_top += frozen
            again += READ * SYSTEM_TOKENS + WRITE * (block_tokens + known + new)
    return {
        "frozen_in_its_place": round(in_place),
        "frozen_on_top_of_the_system_prompt": round(on_top),
        "recalled_again_every_turn": round(again),
    }


def conversation(block: str) -> dict[str, Any]:
    """Price a conversation with this block; with an Anthropic key, also count it there."""
    tokens = estimate_tokens(block)
    report: dict[str, Any] = {"turns": TURNS, "block_tokens": tokens, "paid": price(tokens)}
    counted = _counted(block)
    if counted is not None:
        report |= {"block_tokens_counted": counted, "paid_counted": price(counted)}
    return report


def _counted(block: str) -> int | None:
    key = os.environ.get("USERMEM_ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_API_KEY")
    if not key:
        return None
    from anthropic import Anthropic  # noqa: PLC0415 - only with a key at hand

    client = Anthropic(api_key=key)
    model = os.environ.get("USERMEM_MODEL", "claude-haiku-5-5")

    def count(text: str) -> int:
        answer = client.messages.count_tokens(
            model=model, messages=[{"role": "user", "content": text}]
        )
        return answer.input_tokens

    return count(f"a {block}") - count("a")
