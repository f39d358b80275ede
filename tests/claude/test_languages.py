"""A fact keeps the user's language, whoever reads; the keyless rules fall over none."""

import unicodedata

import pytest

from tests.claude.play import Script, why
from tests.scripted_claude import fact
from tests.world import Caller, World

SAID = {
    "Romanian": (
        "Bună! Lucrez ca asistentă medicală la Cluj și prefer cafeaua fără zahăr.",
        "Lucrează ca asistentă medicală la Cluj.",
        "lucrez ca asistentă medicală la Cluj",
    ),
    "German": (
        "Grüß dich, ich wohne jetzt in München und fahre „nie mit dem Auto“.",
        "Wohnt in München.",
        "ich wohne jetzt in München",
    ),
    "Chinese": (
        "你好，我住在上海，平时喜欢喝绿茶。",
        "住在上海。",
        "我住在上海",
    ),
    "Arabic": (
        "مرحبا، أنا أعيش في القاهرة وأعمل مهندسة برمجيات.",
        "تعيش في القاهرة.",
        "أنا أعيش في القاهرة",
    ),
}


@pytest.mark.parametrize("language", SAID)
async def test_a_fact_keeps_the_language_and_its_quote_is_found_in_any_unicode_form(
    alice: Caller, script: Script, language: str
):
    said, text, quote = SAID[language]
    # As a model may give it back: other forms of the letters and marks, other spaces.
    mangled = unicodedata.normalize("NFD", quote).replace(" ", "\u00a0 ")
    script.extract = lambda _: [fact(text, quote=mangled, subject="home city")]

    state = await alice.say(said)

    assert state["facts"]["added"] == 1, state
    assert await alice.texts() == [text]
    [evidence] = (await why(alice, text))["evidence"]
    assert evidence["quote"] in said
    assert text in await alice.block(said)


@pytest.mark.parametrize("language", SAID)
async def test_the_rules_get_through_any_language(world: World, language: str):
    said, text, _ = SAID[language]
    keyless = await world.tenant()

    state = await keyless.say(said)
    written = await keyless.post("/facts", {"text": text, "kind": "profile"})

    assert state["status"] == "done"
    assert written.status_code in {200, 201}
    assert text in await keyless.texts()
