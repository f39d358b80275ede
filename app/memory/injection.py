"""Text that tries to steer: markup, hidden text, orders, triggers, planted recommendations.

Structure is looked at first, because it needs no vocabulary. A style preference is an order too
("always answer in Romanian"): what makes an order suspicious is what it touches (rules, checks,
other people, destinations, the memory itself) or when it is to happen (on a code word).
"""

import re
from typing import Final

from app.memory import injection_english as english
from app.memory.injection_languages import ORDERS_ELSEWHERE
from app.memory.patterns import one_of

# Nothing a person writes about themselves looks like this.

_MARKUP = one_of(
    r"</|<\||\|>|<!|<\?"  # closing tags, chat templates, comments
    r"|<[a-z_][\w-]*\s[^<>]*=[^<>]*>"  # a tag with attributes
    r"|(?<![\w>])<(?:system|user|assistant|human|ai|tool|instructions?|rules?|memory|user_memory"
    r"|prompt|admin|script|img|iframe"
    r"|svg|style|div|span|a|p|br|b|i|body|html|head|meta|link|object|embed|form|input|xml|root"
    r"|data|context|document|function\w*)\b[^<>]{0,80}>?"
    r"|&(?:lt|gt|#0*6[02]|#x0*3[ce]);|\\u003[ce]|%3c|\[/?inst\]|\[/?(?:system|assistant|user"
    r"|memory|sys|tool)\b"
    r"|<<\s*/?\s*sys|\{\{|\}\}|\$\{|\{%|\]\]>|```|~~~|\"\"\"|user_memory"
    r"|end of (?:the )?(?:user )?(?:memory|memories|block|prompt|context|system|data"
    r"|facts?|input|instructions?)|new (?:system )?prompt|system prompt (?:follows|is"
    r"|:)"
    r"|\{\s*\"|\"\s*:\s*[\"{\[\dtfn]|\[[^\]]{0,80}\]\(|!\[|javascript:|data:\w+/"
    r"|\bmemory\s*[.:]\s*\w+\s*\(|\b\w+\.(?:add|write|save|store|set|append)\("
    r"|\w+_(?:write|save|store|update|memory|call)\s*[:(=]|(?:^|\s)[=@+][a-z]+\(|\bdrop table\b"
    r"|--\s*$|/\*|\*/|#{2,}\s*\w"
    r"|\b\w+\(\w+ ?= ?[\"'\w]|\[(?:agent|bot|admin|operator|ai)\]"
)
_ROLE_LABEL = re.compile(
    r"(?:^|[\n.!?;\"'>)\]-]\s*)(?:human|assistant|system|user|ai|developer|tool|operator|agent"
    r"|memory|bot|function|admin)"
    r"(?: \w+)?\s*(?::|>|->)|(?:^|\n)\s*-\s*\[\w+\]|\s-\s*\[(?:\w+)\]\s"
)
_LIST_LINE = re.compile(r"\s*(?:[-*+>|#]|\d+[.)])\s")
_HIDDEN_LETTERS = re.compile(
    r"(?<!\w)(?:\w[._*~/-]){4,}\w(?!\w)|(?<!\w)(?:\w ){6,}\w(?!\w)"
    r"|(?:(?<!\w)(?:\w[._*-]){2,}\w\W+){2,}"
)
_ENCODED = one_of(
    r"[A-Za-z0-9+/]{24,}={0,2}|(?:[0-9a-f]{2}[ :]?){12,}|(?:\\x[0-9a-f]{2}){4,}"
    r"|(?:\\u[0-9a-f]{4}){3,}|(?:%[0-9a-f]{2}){4,}"
    r"|(?:&#x?[0-9a-f]+;){3,}|(?:[.\-]{1,6}[ /]+){6,}|(?:[01]{7,8}\s+){3,}|\b(?:rot-?13|base-?64"
    r"|base-?32|morse|hex(?:adecimal)?|caesar|cipher)\b"
    r".{0,40}\b(?:decode|remember|keep|store|save|note|preference|unpack|apply|follow|is|:)"
    r"|\b(?:decode|decrypt|unpack|decipher|un-?scramble)\b"
    r".{0,60}\b(?:remember|keep|store|save|follow|apply|obey|execute|run|note|memor\w+)\b"
    r"|\b(?:remember|keep|store|save|note)\b.{0,40}\b(?:decoded|decrypted|backwards|reversed)\b"
)
# Common words spelled backwards, for text that was meant to be seen through a bidi override.
_BACKWARDS = re.compile(
    r"\b(?:eht|uoy|lla|reven|syawla|erongi|selur|metsys|nimda|resu|sresu|rebmemer|lavorppa"
    r"|deilpmi|egnahc|tsum|dna|tnatsissa"
    r"|yromem|terces|drowssap|etucexe|wollof|yebo|eteled|dnes|tuohtiw|mrifnoc|ycilop|rotarepo"
    r"|timrep|wolla|tnarg|ssecca|lanoitcurtsni)\b"
)

_LEET = str.maketrans("013457@$", "oieastas")
_LEET_WORD = re.compile(r"(?<!\w)(?:[a-z]+[013457@$]+[a-z]|[013457@$]+[a-z])[a-z013457@$]*")
_INNER_DOT = re.compile(r"(?<=\w)\.(?=\w)")  # of a domain: no sentence ends there
_MIN_BACKWARDS: Final = 2


def steers(text: str, line: str, folded: str) -> str | None:
    """Why `text` may not become a fact unseen: a stable word, or None.

    `line` is the text on one line, `folded` that line folded, without accents. Reasons: markup,
    hidden, encoded, instruction, trigger, tool, other_users, destination, planted.
    """
    structure = _structure(text, line, folded)
    if structure is not None:
        return structure
    plain = _LEET_WORD.sub(lambda match: match[0].translate(_LEET), folded)
    return _order(folded) or (_order(plain) if plain != folded else None)


def _structure(text: str, line: str, folded: str) -> str | None:
    if _MARKUP.search(folded) or _ROLE_LABEL.search(folded):
        return "markup"
    if any(_LIST_LINE.match(later) for later in text.strip().splitlines()[1:]):
        return "markup"
    if _HIDDEN_LETTERS.search(folded) or len(_BACKWARDS.findall(folded)) >= _MIN_BACKWARDS:
        return "hidden"
    if _ENCODED.search(line) or _ENCODED.search(folded):
        return "encoded"
    return None


def _order(folded: str) -> str | None:
    folded = _INNER_DOT.sub("_", folded) if not english.DESTINATION.search(folded) else folded
    if _by_others(english.LIFTS_RULES, folded) or _by_others(english.UNSEEN, folded):
        return "instruction"
    for pattern, reason in _ORDERS:
        if pattern.search(folded):
            return reason
    written = english.MEMORY_WRITE.match(folded)
    if written:
        rest = folded[written.end() :]
        if rest and not english.ABOUT_SELF.search(rest) and not english.STYLE_ORDER.match(rest):
            return "instruction"
    return None


def _by_others(pattern: re.Pattern[str], folded: str) -> bool:
    """Whether `pattern` occurs other than as somebody's own habit or as a prohibition."""
    return any(
        not english.OWN_HABIT.search(folded, 0, match.start())
        and not english.PROHIBITED.search(folded, 0, match.start())
        for match in pattern.finditer(folded)
    )


_ORDERS: Final = (
    (english.TRIGGERED, "trigger"),
    (english.OTHERS, "other_users"),
    (english.DESTINATION, "destination"),
    (english.PLANTED, "planted"),
    (english.TOOLS, "tool"),
    (english.ORDERED, "instruction"),
    (english.TO_ASSISTANT, "instruction"),
    (english.COMMANDS, "instruction"),
    (english.ENDS_IN_ACTION, "instruction"),
    (english.HIDDEN_RULES, "instruction"),
    (english.REMARKS_ON_MEMORY, "instruction"),
    (ORDERS_ELSEWHERE, "instruction"),
)


def commands(folded: str) -> bool:
    """Whether a sentence orders an action that is neither style nor about the user.

    Weaker than `steers`: to be asked when the text is not known to be a plain request.
    """
    return _by_others(english.ORDER, folded)
