"""A few safe patterns for other languages: name, home, work and the language of answers.

Texts stay in the user's words; subjects and values are those of the English table, so that facts
of several languages can be compared.
"""

import re
from collections.abc import Iterator

from app.llm import Kind
from app.rules import slots
from app.rules.readings import Reading
from app.rules.subjects import value

TONGUES = {
    "english": "englisch inglés ingles anglais engleză engleza inglês inglese",
    "german": "deutsch alemán aleman allemand germană germana alemão tedesco",
    "spanish": "spanisch español espanol espagnol spaniolă spaniola espanhol spagnolo castellano",
    "french": "französisch francés frances français francais franceză franceza francês francese",
    "romanian": "rumänisch rumano roumain română romana romeno rumeno româna românește",
    "portuguese": "portugiesisch portugués portugues portugais portugheză português portoghese",
    "italian": "italienisch italiano italien italiană italiana",
}
_ONE_NAME = {word: tongue for tongue, list_ in TONGUES.items() for word in (tongue, *list_.split())}

_NAME, _PLACE, _ORG, _ROLE, _TONGUE = "name", "Place", "Org", "rest", "tongue"
_ROWS: tuple[tuple[str, str, str, Kind], ...] = (
    # German
    (r"ich heiße|ich heisse|mein name ist", _NAME, "name", "profile"),
    (r"(?:ich )?(?:wohne|lebe) (?:jetzt |derzeit |seit \w+ )?in", _PLACE, "home city", "profile"),
    (r"ich arbeite (?:jetzt )?bei", _ORG, "employer", "profile"),
    (r"ich arbeite als", _ROLE, "role", "profile"),
    (
        (
            r"(?:bitte )?(?:antworte?|schreibe?)(?: mir)?(?: bitte)?(?: immer| nur|"
            r" ab jetzt)? auf"
        ),
        _TONGUE,
        "answer language",
        "constraint",
    ),
    # Spanish
    (r"me llamo|mi nombre es", _NAME, "name", "profile"),
    (r"(?:yo )?vivo en|me mudé a", _PLACE, "home city", "profile"),
    (r"(?:yo )?trabajo en", _ORG, "employer", "profile"),
    (r"(?:yo )?trabajo como", _ROLE, "role", "profile"),
    (
        (
            r"(?:por favor,? )?(?:responde|respóndeme|contesta|contéstame)(?: siempre|"
            r" por favor)? en"
        ),
        _TONGUE,
        "answer language",
        "constraint",
    ),
    # French
    (r"je m'appelle|mon nom est", _NAME, "name", "profile"),
    (r"(?:j'habite|je vis)(?: maintenant)? (?:à|a|en|au)", _PLACE, "home city", "profile"),
    (r"je travaille chez", _ORG, "employer", "profile"),
    (r"je travaille comme|je travaille en tant que", _ROLE, "role", "profile"),
    (
        (
            r"(?:merci de |s'il te plaît,? )?(?:réponds|répondez|"
            r"répondre)(?:-moi)?(?: toujours)? en"
        ),
        _TONGUE,
        "answer language",
        "constraint",
    ),
    # Romanian
    (r"mă numesc|ma numesc|mă cheamă|ma cheama|numele meu este", _NAME, "name", "profile"),
    (
        r"(?:eu )?(?:locuiesc|stau|trăiesc)(?: acum)? (?:în|in|la)|m-am mutat (?:la|în|in)",
        _PLACE,
        "home city",
        "profile",
    ),
    (r"(?:eu )?lucrez la", _ORG, "employer", "profile"),
    (r"(?:eu )?lucrez ca", _ROLE, "role", "profile"),
    (
        (
            r"(?:te rog(?: să)? )?(?:răspunde|răspunde-mi|raspunde|răspunzi)(?: mereu|"
            r" întotdeauna)? (?:în|in)(?: limba)?"
        ),
        _TONGUE,
        "answer language",
        "constraint",
    ),
    # Portuguese
    (r"(?:o )?meu nome é|(?:eu )?me chamo|chamo-me", _NAME, "name", "profile"),
    (r"(?:eu )?(?:moro|vivo) em|mudei-me para|me mudei para", _PLACE, "home city", "profile"),
    (r"(?:eu )?trabalho (?:na|no)", _ORG, "employer", "profile"),
    (r"(?:eu )?trabalho como", _ROLE, "role", "profile"),
    (
        r"(?:por favor,? )?(?:responde|responda)(?:-me)?(?: sempre)? em",
        _TONGUE,
        "answer language",
        "constraint",
    ),
    # Italian
    (r"mi chiamo|il mio nome è", _NAME, "name", "profile"),
    (r"(?:io )?(?:abito|vivo) a|mi sono trasferit[oa] a", _PLACE, "home city", "profile"),
    (r"(?:io )?lavoro (?:per|presso|da)", _ORG, "employer", "profile"),
    (r"(?:io )?lavoro come", _ROLE, "role", "profile"),
    (
        r"(?:per favore,? )?(?:rispondi|rispondimi)(?: sempre)? in",
        _TONGUE,
        "answer language",
        "constraint",
    ),
)
_TABLE = tuple(
    (re.compile(rf"(?:{lead}) (?P<rest>.{{1,80}})", re.IGNORECASE), slot, subject, kind)
    for lead, slot, subject, kind in _ROWS
)
_ROLE_WORDS = 4
_ANY = re.compile("|".join(lead for lead, *_ in _ROWS), re.IGNORECASE)
_JOINTS = re.compile(r" ?[,;:] ?| (?:und|y|et|și|si|e|aber|pero|mais|dar|ma|mas) (?=\w)|[.!?]+ ?")
_GREETING = re.compile(
    r"(?:(?:hallo|hi|hola|salut|bonjour|bună|buna|olá|ola|oi|ciao|hey|und|y|et|și|e)[,!]? )+",
    re.IGNORECASE,
)
_FOREIGN_FOLLOWERS = re.compile(
    r" (?:und|y|et|și|si|e|aber|pero|mais|seit|desde|depuis|de|din|da|con|mit|avec|cu|com|por|als|"
    r"como|comme|ca|come|bitte|jetzt|ahora|maintenant|acum|agora|adesso|hace|aus|bei)\b.*$",
    re.IGNORECASE,
)


_ONCE = re.compile(
    r"\b(?:asta|această|diese\w*|dieses|nur für|heute|esta|este|hoy|cette|aujourd'hui|questa|oggi|"
    r"essa|hoje|azi|acum doar)\b",
    re.IGNORECASE,
)


def read_foreign(text: str) -> Iterator[tuple[int, Reading]]:
    """(where it starts, what is read) for each piece that one of the patterns fits."""
    if not _ANY.search(text) or _ONCE.search(text):
        return
    at = 0
    for joint in [*_JOINTS.finditer(text), None]:
        end = joint.start() if joint else len(text)
        lead = _GREETING.match(text, at, end)
        start = lead.end() if lead else at
        piece = text[start:end]
        if len(piece) <= slots.MAX_VALUE and (reading := _of(piece)):
            yield start, reading
        at = joint.end() if joint else end


def _of(piece: str) -> Reading | None:
    for pattern, slot, subject, kind in _TABLE:
        found = pattern.fullmatch(piece)
        if not found:
            continue
        said = found["rest"] if slot == _ROLE else _FOREIGN_FOLLOWERS.sub("", found["rest"])
        held = _held(slot, said)
        if held is None:
            return None
        end = found.start("rest") + len(said)
        text = f"{piece[:1].upper()}{piece[1:end]}".rstrip(" .!") + "."
        return Reading(subject, held, kind, text, end, weak=slot == _ROLE)
    return None


def _held(slot: str, said: str) -> str | None:
    if slot == _TONGUE:
        return _ONE_NAME.get(said.split(maxsplit=1)[0].strip(".,!").lower())
    if slot == _ROLE:
        return value(said) if len(said.split()) <= _ROLE_WORDS else None
    if slot != _NAME and not said[:1].isupper():
        return None
    values = slots.READERS[slot](said)
    return value(values[0]) if values else None


def one_tongue(word: str) -> str:
    """The English name of a language, whatever language it is named in."""
    return _ONE_NAME.get(word.lower(), word.lower())
