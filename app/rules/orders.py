"""Standing instructions of a user and rules of a team.

An instruction is kept in the user's own words. It counts only when it is said for good ("never",
"always", "from now on") or can hardly be meant for one task (the language of answers, emojis).
"""

import re
from dataclasses import replace

from app.rules.choices import choice
from app.rules.lexicon import LANGUAGES
from app.rules.phrases import is_passing, trim
from app.rules.readings import Reading
from app.rules.subjects import fold, words

MAX_RULE = 180
_DAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday|weekends?|weekdays"


_DO = (
    "suggest|recommend|use|propose|offer|call|write|answer|reply|respond|give|show|send|add|"
    "include|mention|put|deploy|ship|release|commit|merge|push|ask|tell|address|book|schedule|"
    "explain|keep|format|assume|apologi[sz]e|start|end|begin|cite|quote|translate|convert|round|"
    "sign|speak|talk|refer|link|run|generate|produce|default|prefer|avoid|skip|name|indent|wrap|"
    "test|check|delete|drop|store|share|contact|email|order|buy|pick|choose|spell|highlight|label|"
    "provide|list|sort|plan|point|bring|serve|cook|touch|rely|repeat|sugarcoat|lecture|correct|"
    "double-check|warn|remind|seat|comment|document|type|prefix|abbreviate|pronounce|capitali[sz]e"
)
_FOR_GOOD = (
    r"(?:from now on|going forward|from here on|in (?:the )?future|"
    r"for (?:all )?future \w+|by default"
    r"|as a (?:general )?rule|in general|generally|for ever|forever|"
    r"in all (?:your )?(?:answers|replies|responses)|"
    r"every time|each time|for the rest of our chats|until i say otherwise)"
)
_STYLE = (
    r"(?:emojis?|jargon|markdown|bullet points?|bullet lists?|bullets|lists|"
    r"walls of text|exclamation marks?|small talk|buzzwords?|"
    r"abbreviations|slang|em dashes|preambles?|fluff|filler|pleasantries|disclaimers?|caps|"
    r"sugarcoat\w*|apologi[sz]\w*|flatter\w*|semicolons|passive voice|clich[eé]s|headings|tables)"
)
_NOT_ORDERS = re.compile(
    r"(?:never|always) (?:give up|stop|lose|underestimate|doubt|mind|again|"
    r"ever\b(?! use)|say never|in a million|been|had|heard|seen|"
    r"wanted|wondered|thought|liked|loved|felt|was|got|did|used to|knew|the same|"
    r"happy|good|fun|a )",
    re.IGNORECASE,
)
_ORDERS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            rf"(?:please )?(?:{_FOR_GOOD},? )?(?:please )?(?:never|always|don't ever|"
            rf"do not ever|you (?:should|must) (?:always|never)) (?:\w+ly )?(?:{_DO}|be|do|"
            rf"make|have|let|say|try)\b.*"
        ),
        (
            rf"(?:please )?{_FOR_GOOD},? (?:please )?(?:{_DO}|be|don't|do not|no|i want|"
            rf"i'd like|only|you)\b.*"
        ),
        rf"(?:please )?(?:only |just )?(?:{_DO}|be|don't|do not) .*\b{_FOR_GOOD}$",
        (
            rf"(?:please )?(?:don't|do not|stop|avoid|no|no more|skip(?: the)?|"
            rf"quit) (?:ever )?(?:us(?:e|ing) |with |add(?:ing)? |writ(?:e|ing) |includ(?:e|"
            rf"ing) |put(?:ting)? )?(?:any |the |so many )?{_STYLE}\b.*"
        ),
        (
            r"(?:please )?(?:don't|do not|stop) (?:suggest(?:ing)?|recommend(?:ing)?|"
            r"propos(?:e|ing)|offer(?:ing)?) [A-Z].*"
        ),
        r"(?:please )?(?:don't|do not|stop) call(?:ing)? me .*",
        (
            r"(?:please )?(?:only )?(?:answer|reply|respond|write|speak|talk|"
            r"communicate)(?: to me| back| with me)?(?: only|"
            r" always)? in (?P<lang>[^\W\d_]{4,12})(?: only| always| please| from now on|"
            r",? .*)?"
        ),
        r"(?:please )?keep (?:your |the |all )?(?:answers|replies|responses|explanations) .*",
        (
            r"(?:please )?(?:use|give me|stick to|show) (?:metric|imperial|celsius|fahrenheit|"
            r"24[- ]hour|british (?:english|spelling)|american (?:english|spelling)|tabs|"
            r"the metric system)\b.*"
        ),
        (
            r"(?:when(?:ever)?|if|every time|each time) you .{3,80}, (?:please )?(?:always|"
            r"never|don't|do not|use|keep|add|include|make|write|put|prefer|avoid)\b.*"
        ),
        (
            r"(?:please )?(?:don't|do not|use|avoid|stop) .{3,80} when(?:ever)? you (?:write|"
            r"give|show|answer|explain|reply)\b.*"
        ),
        r"(?:please )?(?:address me|switch (?:me )?back to) .*",
        r"no (?P<what>emojis|meetings|calls|deploys|deployments|releases|jargon|fluff)\b.*",
    )
)
_ALLOWED_AGAIN = re.compile(
    (
        rf"(?:(?:you )?(?:can|may)|feel free to|it's (?:fine|ok|"
        rf"okay) to) (?:now )?(?P<base>(?:{_DO})\b.*?)(?: again| now| after all)$"
    ),
    re.IGNORECASE,
)
_TEAM = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            rf"(?:we|the team|our team|my team|everyone here|(?:\w+'s|"
            rf"this) team)(?: all)? (?:only |never |always )*(?:{_DO}|deploys|ships|releases|"
            rf"rotates?|squash|rebase|pin|require|requires|rotate|follow|sprint)\b.*\b(?:only|"
            rf"never|always|every|each)\b.*"
        ),
        (
            rf"(?:we|the team|our team|my team|\w+'s team) (?:only|never|always) (?:{_DO}|"
            rf"deploys|ships|releases|merges|rotates?|squash|rebase|pin|require)\b.*"
        ),
        (
            rf"(?:we|the team|our team|my team) (?:deploys?|ships?|releases?) (?:on|any|"
            rf"every) .*(?:{_DAYS}).*"
        ),
        r"(?:i am|i'm|we're|we are) (?:not allowed to|required to|only allowed to) .*",
        (
            r"(?:we|our team) (?:must|have to|are required to|are not allowed to|"
            r"aren't allowed to|can't use|cannot use|may not use|are only allowed to|can only|"
            r"may only|need to keep) .*"
        ),
        r"(?:we are|we're|i'm|i am) (?:\S+ ){0,6}(?:by contract|by law|by policy)\b.*",
        (
            r"(?:(?:every|each|all|our|the) )*(?:prs?|pull requests?|commits?|merges?|"
            r"releases?|deploys?|deployments?|branches|tests?|migrations|docs|docstrings|"
            r"code) (?:must|needs?|requires?|have to|has to|are always|is always|"
            r"should always|are (?:all )?(?:written|done|run) (?:with|in|on)|(?:happen|go out|"
            rf"are) (?:only )?(?:on|(?:every|each)(?= (?:{_DAYS})))|should be written) .*"
        ),
        (
            r"(?:nothing|nobody|no one|no code) (?:gets?|is|goes|may|can)(?: be)? (?:deployed|"
            r"merged|shipped|released|pushed|live) .*"
        ),
        (
            r"(?:my|our) (?:company|company's|employer'?s?|team|team's|house|security|"
            r"it) (?:policy|rule|rules|policies) (?:is|are|forbids?|says|requires?|bans?) .*"
        ),
        (
            r"(?:our |my )?(?:\w+ )?(?:data|backups|logs|servers) (?:of .{2,40} )?(?:must|"
            r"may not|has to|have to|can't|cannot) .*"
        ),
    )
)
_ONCE = re.compile(
    r"\b(?:this|that|these|it|them|above|below|here|today|tonight|tomorrow|now|for once|just once|"
    r"the (?:header|title|email|mail|function|script|table|list|file|answer|text|following)|"
    r"the (?:first|second|third|last|next) .*)\b",
    re.IGNORECASE,
)
_TOPIC_STOPS = frozenset(
    [
        "please",
        "never",
        "always",
        "don't",
        "do",
        "not",
        "ever",
        "from",
        "now",
        "on",
        "going",
        "forward",
        "in",
        "future",
        "the",
        "a",
        "an",
        "my",
        "me",
        "to",
        "any",
        "or",
        "and",
        "of",
        "for",
        "with",
        "all",
        "your",
        "i",
        "you",
        "by",
        "default",
        "at",
        "is",
        "be",
        "we",
        "only",
        "no",
        "more",
        "again",
        "may",
        "can",
        "team",
        "our",
        "must",
        "should",
        "every",
        "each",
        "use",
        "uses",
        "used",
        "using",
        "it",
        "after",
    ]
)


def _topic(text: str) -> str:
    """What a rule is about: its first words that carry meaning."""
    heard = [word for word in words(text.split(";", maxsplit=1)[0]) if word not in _TOPIC_STOPS]
    return " ".join(heard[:2]) or "standing instruction"


def _rule(text: str, *, likes: bool) -> Reading:
    found = choice(text) or deploy_days(text)
    heard = " ".join(
        word for word in words(text.split(";", maxsplit=1)[0]) if word not in _TOPIC_STOPS
    )
    subject, value = found or (f"rule on {_topic(text)}", heard)
    said = re.sub(r"^(?:please |pls |and |so )+", "", trim(text), flags=re.IGNORECASE)
    said = f"{said[:1].upper()}{said[1:]}"
    return Reading(
        subject, value, "constraint", f"{said}.", len(text), likes=likes or found is not None
    )


_TEXT_NOT = re.compile(
    r"\b(?:never|no|not|don't|do not|without|stop|avoid|forbids?)\b", re.IGNORECASE
)


_RULE_WORDS = re.compile(
    r"\b(?:never|always|don't|do not|ever|from now on|going forward|from here on|"
    r"future|by default|rule|"
    r"general|generally|forever|every|each|stop|avoid|no|skip|quit|answer|reply|"
    r"respond|write|speak|"
    r"talk|communicate|keep|metric|imperial|celsius|fahrenheit|hour|english|spelling|tabs|address|"
    r"switch|must|have to|has to|allowed|can't|cannot|can|may|only|needs?|requires?|"
    r"required|contract|law|"
    r"policy|policies|rules|are|happen|nothing|nobody|until|should|deploys?|ships?|"
    r"releases?|fine|ok|okay)\b",
    re.IGNORECASE,
)


def order(text: str) -> Reading | None:
    """A standing instruction or a team's rule, if the text is one."""
    again = _ALLOWED_AGAIN.match(text)
    if again:
        base = _rule(again["base"], likes=True)
        return replace(base, closes=True, text=f"May {again['base']} again.", end=len(text))
    if not _RULE_WORDS.search(text):
        return None
    called = re.search(
        r"(?<!n't )(?<!not )(?<!never )(?<!stop )\bcall me \S+$", text, re.IGNORECASE
    )
    if called or _NOT_ORDERS.match(text) or len(text) > MAX_RULE:
        return None
    for pattern in _ORDERS:
        found = pattern.fullmatch(text)
        if found and not _is_once(text, found):
            return _rule(text, likes=not _TEXT_NOT.search(text))
    for pattern in _TEAM:
        if pattern.fullmatch(text) and not is_passing(text) and not _ONCE.search(text):
            return _rule(text, likes=not _TEXT_NOT.search(text))
    return None


def _is_once(text: str, found: re.Match[str]) -> bool:
    if (found.groupdict().get("lang") or "german").lower() not in LANGUAGES:
        return True
    without = re.sub(rf"\b{_FOR_GOOD}\b|\bfrom now on\b", "", text, flags=re.IGNORECASE)
    lasting = re.search(r"\b(?:never|always|ever)\b", text, re.IGNORECASE)
    return is_passing(without) or (not lasting and bool(_ONCE.search(without)))


def rule_of(text: str) -> Reading | None:
    """Like `order`, for stored texts, where the one who rules may be left out."""
    found = order(text)
    if found:
        return found
    if (picked := choice(text)) is not None:
        return Reading(picked[0], picked[1], "preference", text, len(text))
    if (days := deploy_days(text)) is not None:
        return Reading(days[0], days[1], "constraint", text, len(text))
    return None


def deploy_days(text: str) -> tuple[str, str] | None:
    """(subject, days) where a text says when a team deploys; exceptions count as such."""
    if not re.search(r"\b(?:deploy(?:s|ment|ments)?|ships?|releases?)\b", text, re.IGNORECASE):
        return None
    found = re.findall(rf"\b(?:{_DAYS})", text, re.IGNORECASE)
    if not found:
        return None
    sign = "not " if re.search(r"\b(?:except|but|never|not|don't)\b", text, re.IGNORECASE) else ""
    return "deployment days", sign + " ".join(sorted({fold(day) for day in found}))
