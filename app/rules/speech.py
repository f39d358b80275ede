"""Turning what somebody says of themselves into a statement about them."""

import re

_IRREGULAR = {"have": "has", "go": "goes", "do": "does", "be": "is", "am": "is", "are": "is"}
_INNER = (
    (re.compile(r"\b(?:my|our)\b"), "their"),
    (re.compile(r"\b(?:myself|ourselves)\b"), "themselves"),
    (re.compile(r"\b(?:i|I) am\b"), "they are"),
    (re.compile(r"\bI\b"), "they"),
    (re.compile(r"\bme\b"), "them"),
)


def of_them(text: str) -> str:
    """The user's "my" and "me", seen from outside."""
    for pattern, word in _INNER:
        text = pattern.sub(word, text)
    return text


def third_form(verb: str) -> str:
    """Make "live" into "lives"."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("s") and not verb.endswith("ss"):
        return verb
    if verb.endswith(("ss", "sh", "ch", "x", "o", "z")):
        return verb + "es"
    if verb.endswith("y") and verb[-2:-1] not in tuple("aeiou"):
        return verb[:-1] + "ies"
    return verb + "s"


_BE = re.compile(r"^(?:i'?m|i am)\b", re.IGNORECASE)
_HAVE = re.compile(r"^(?:i've|i have)\b", re.IGNORECASE)
_DONT = re.compile(r"^i (?:don't|do not)\b", re.IGNORECASE)
_AUX = re.compile(
    r"^i (can't|cannot|can|must|will|should|never|always|only|also|was|had|did)\b", re.IGNORECASE
)
_VERB = re.compile(r"^i ([a-z'-]+)\b", re.IGNORECASE)


def in_third_person(text: str) -> str:
    """Make "I walk my dog" into "Walks their dog."; "we …" stays as said."""
    said = text.strip().rstrip(" .!,;")
    if re.match(r"my\b", said, re.IGNORECASE):
        said = said[2:].strip()
    elif re.match(r"i\b", said, re.IGNORECASE):
        said = _of_the_user(said)
        said = of_them(said)
    return f"{said[:1].upper()}{said[1:]}."


def _of_the_user(said: str) -> str:
    for pattern, word in ((_BE, "is"), (_HAVE, "has"), (_DONT, "does not")):
        if pattern.match(said):
            return pattern.sub(word, said)
    if aux := _AUX.match(said):
        if aux[1].lower() in ("never", "always", "only", "also"):
            following = re.match(r"i \w+ ([a-z'-]+)(.*)", said, re.IGNORECASE | re.DOTALL)
            if following:
                return f"{aux[1]} {third_form(following[1].lower())}{following[2]}"
        return said[2:]
    if verb := _VERB.match(said):
        word = verb[1].lower()
        return (third_form(word) if not word.endswith("ed") else word) + said[verb.end() :]
    return said
