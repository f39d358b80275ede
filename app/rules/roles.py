"""Telling an occupation ("a platform engineer") from everything else that people say they are."""

import re

from app.rules.lexicon import NOT_ROLES, ROLE_ENDINGS
from app.rules.phrases import is_passing, trim
from app.rules.subjects import fold


def is_role(text: str) -> bool:
    """Whether the last word names an occupation."""
    last = fold(text).split()[-1] if fold(text) else ""
    if re.match(r"(?:head|vp|director|chief|manager|vice president) of \w", fold(text)):
        return True
    return last not in NOT_ROLES and last.endswith(ROLE_ENDINGS)


_VERBAL = re.compile(
    r"\b(?:is|are|was|were|has|have|got|had|not|no|to|a|the|it|this|that|than|so|very|just|called|"
    r"uses?|likes?|loves?|lives?|works?|prefers?|your|you|my|from)\b",
    re.IGNORECASE,
)


_TITLES = re.compile(
    r"(?:c[teofism]o|vp|head of|lead|senior|junior|chief|principal|staff|platform|"
    r"software|data|product|"
    r"director|professor|(?:co-?)?founder|owner|freelance|assistant|associate|deputy|managing)\b",
    re.IGNORECASE,
)


_AFTER = re.compile(r",| (?:at|for|in|with|and|but|who|from|by|on|based|working|these|here|since) ")


def role(raw: str) -> list[str]:
    """An occupation with its article: "a platform engineer"."""
    text = trim(_AFTER.split(raw, maxsplit=1)[0])
    bare = re.sub(r"^(?:an?|the|our|your|their) ", "", text)
    if not bare or len(bare.split()) > 6 or not is_role(bare) or is_passing(text):
        return []
    if _VERBAL.search(bare):
        return []
    untitled = not re.match(r"(?:an?|the|our|your|their) ", text, re.IGNORECASE)
    if untitled and not _TITLES.match(bare):
        return []
    if re.match(
        r"(?:bit|lot|huge|big|terrible|bad|happy|heavy|light|slow|fast|little|long-?time|"
        r"first-?time|new|regular|paying|frequent|great|proud|total|complete|native|fluent|"
        r"nervous|good|keen|avid|satisfied)\b",
        bare,
        re.IGNORECASE,
    ) and not re.search(r"engineer|developer|teacher|doctor|nurse", bare):
        return []
    return [text]


def titled_role(raw: str) -> list[str]:
    """An occupation said without article: "work as lead architect", "CTO"."""
    found = role(raw) or role(f"the {raw}")
    found = [text.removeprefix("the ") if not raw.startswith("the ") else text for text in found]
    return (
        [f"{'an' if found[0][0].lower() in 'aeio' else 'a'} {found[0]}"]
        if (found and not re.match(r"(?:an?|the|our|their) ", found[0], re.IGNORECASE))
        else found
    )


def any_role(raw: str) -> list[str]:
    """Whatever "I work as" or "my role is" names."""
    text = trim(re.split(r",| (?:at|for|with|and|but|who|based|in) ", raw)[0])
    return [text] if 0 < len(text.split()) <= 6 and not is_passing(text) else []
