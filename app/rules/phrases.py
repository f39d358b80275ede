"""Where a phrase ends: cutting a value out of the words around it."""

import re

_FOLLOWERS = re.compile(
    r" ?[,(:!?]| (?:-|and|or|but|as|with|since|for|because|so|now|these|nowadays|"
    r"currently|in|on|at|"
    r"when|where|while|if|to|from|near|by|last|this|next|ago|btw|anyway|though|too|already|again|"
    r"please|every|right|until|after|before|than|over|instead|due|which|who|that|thanks|mostly|"
    r"mainly|full-?time|part-?time|remotely|actually|doing|via|through|during|even|is|are|was|just|"
    r"also|either|not|about|around|here|yesterday|today|recently|rather|working|back|"
    r"permanently)\b",
    re.IGNORECASE,
)
_TRAILERS = re.compile(
    r"[ ,]+(?:now|these days|nowadays|currently|anyway|btw|by the way|please|though|too|as well|"
    r"again|at the moment|last (?:week|month|year|summer|winter|spring|autumn|fall|\w+day)|"
    r"recently|a (?:while|year|month|week|few \w+) ago|\w+ (?:years|months|weeks) ago|already|"
    r"thanks|thank you|thx|for what it's worth|right now|of course|actually|so far|lately|to me|"
    r"by default|yeah|ok|okay|haha|lol|instead|for (?:ages|years|now)|"
    r"for (?:about |over |almost )?\d+ (?:years|months)|for (?:everything|most things|work)|"
    r"if (?:that|it) (?:helps|matters)|in general|generally|very much|so much|a lot|the most|"
    r"more than anything|at work|then|all the time|most of the time|remember|you know|"
    r"as you (?:may |might |already |probably )*(?:know|remember|recall)|"
    r"(?:as|like) I(?:'ve| have)? (?:already |just )?(?:said|mentioned|told you)"
    r"(?: before| earlier| already)?)$",
    re.IGNORECASE,
)
CAPITAL = re.compile(r"[A-ZÀ-ÖØ-ÞĂÂÎȘȚŞŢĄĆĘŁŃÓŚŹŻČŠŽĐİ0-9]")
_PASSING = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|right now|at the moment|this (?:morning|afternoon|"
    r"evening|weekend|time|one|way|file|code|script|function|line|page|document|question|task|"
    r"answer|mail|email|message|example|case|query|repo|error|bug|test|class|method)|just now|"
    r"in a (?:hurry|rush)|for now|this once|next time|the (?:second|first|latter|"
    r"former|other|last) "
    r"(?:one|option|version|approach|draft|variant|suggestion|idea)|option [a-d1-9]|"
    r"for the next (?:hour|minutes|\d+)|so far|first (?:version|draft)|above|below|"
    r"the (?:code|script|file|output|error|answer|text) (?:you|i|above|below))\b",
    re.IGNORECASE,
)


def is_passing(text: str) -> bool:
    """Whether the words tie what is said to this moment or this task."""
    return bool(_PASSING.search(text))


_ASIDES = re.compile(
    r" \(|,? '?cause |, but\b|, (?:and (?:i|it|they|we|he|she)|like|e\.g|such|for|"
    r"especially|mostly|mainly|even|usually|or|ever|he|she|they|it|we|so|plan|"
    r"please) | (?:in the end|at last|for good)\b"
)


def trim(raw: str) -> str:
    """Cut what trails a value without belonging to it ("… these days", "… last month")."""
    text = " ".join(_ASIDES.split(raw, maxsplit=1)[0].split()).strip(" .,;:!?)`'\"")
    for _ in range(4):
        shorter = _TRAILERS.sub("", text).rstrip(" .,;:!?")
        if shorter == text:
            break
        text = shorter
    return text


def head(raw: str) -> str:
    """The words before the first one that starts something else."""
    found = _FOLLOWERS.search(raw)
    return trim(raw[: found.start()] if found else raw)


def split_list(raw: str) -> list[str]:
    """The items of "Django, Postgres and Celery"."""
    return [
        p.strip()
        for p in re.split(r",(?: and)? | and | & | \+ | plus | as well as ", raw)
        if p.strip()
    ]
