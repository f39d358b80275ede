"""Secrets are cut out of a turn before anything stores it or any model reads it.

What goes is decided on a copy in which every character keeps its place (`_plain`), so that the
rest of the turn stays as the user wrote it. Finders lean towards cutting: a lost order number can
be said again, a stored password cannot be taken back. All of them are linear in the turn.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from app.memory import secret_numbers, secret_prose
from app.text import clean

MARK: Final = "[removed]"
"""Stands where a secret stood. A quote or fact that touches it must be dropped."""

Span = tuple[int, int, str]
"""Start, end and kind of a secret; the kind is a metric label, never the user's words."""

_PASSES: Final = 4


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """A turn without its secrets, and how many of which kind were cut out."""

    text: str
    found: Mapping[str, int] = field(default_factory=dict)


# Text that only a machine can see: tag characters outside the three flags, runs of variation
# selectors, and spans under a bidi override, which read backwards on screen.
_FLAG: Final = (
    "\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_HIDDEN = re.compile(
    f"(?P<flag>\U0001f3f4{_FLAG})"
    "|[\U000e0000-\U000e007f]{2,}"
    "|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}"
    "|[\u202d\u202e\u2066-\u2068][^\u202c\u2069\n]{0,400}[\u202c\u2069]?"
)
_BACKWARDS: Final = "\u202e\u202d\u2067"

_VENDOR_KEYS: Final = (
    r"sk-(?:ant-|proj-|or-v1-|svcacct-|admin-)?[\w-]{16,}",  # Anthropic, OpenAI, OpenRouter
    r"(?:sk|pk|rk)_(?:live|test)_\w{8,}|whsec_[\w+/=]{16,}",  # Stripe
    r"gh[pousr]_\w{16,}|github_pat_\w{16,}",  # GitHub
    r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w-]{12,}",  # GitLab
    r"xox[abceoprs](?:\.xox[bp])?-[\w-]{10,}|xapp-[\w-]{10,}",  # Slack
    r"hooks\.slack\.com/(?:services|workflows)/[\w/]{12,}",
    r"(?:discord|discordapp)\.com/api/webhooks/\d+/[\w-]{12,}",
    r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{25,}",  # Discord bot
    r"(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|ANPA|AROA)[0-9A-Z]{12,}",  # AWS
    r"AIza[\w-]{24,}|ya29\.[\w-]{16,}|GOCSPX-[\w-]{16,}|1//0[\w-]{24,}",  # Google
    r"SG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"key-[0-9a-f]{24,}|[0-9a-f]{32}-us\d{1,2}",  # Mailgun, Mailchimp
    r"(?:AC|SK)[0-9a-f]{32}",  # Twilio
    r"\d{8,10}:[\w-]{30,}",  # Telegram bot
    r"npm_\w{20,}|pypi-[\w-]{16,}|rubygems_\w{20,}|dckr_pat_[\w-]{16,}|oy2[a-z0-9]{40,}",
    r"hf_\w{16,}|r8_\w{20,}|gsk_\w{20,}|xai-\w{20,}|pplx-\w{20,}|nvapi-[\w-]{20,}|jina_\w{20,}",
    r"shp(?:at|ca|pa|ss)_\w{16,}|sq0(?:atp|csp|idp)-[\w-]{16,}|EAA[A-Za-z][\w]{24,}",
    r"do[opr]_v1_\w{24,}|dapi[0-9a-f]{24,}|hv[bs]\.[\w-]{20,}|tskey-[\w-]{12,}|fo1_[\w-]{20,}",
    r"lin_(?:api|oauth)_\w{16,}|ntn_\w{20,}|secret_\w{32,}|figd_[\w-]{16,}|ATATT[\w=-]{20,}",
    r"pat\w{14}\.[0-9a-f]{32,}|PMAK-[\w-]{24,}|NRAK-\w{20,}|gl(?:sa|c)_[\w=-]{20,}|sbp_\w{20,}",
    r"sntry[su]_[\w+/=-]{20,}|ph[cx]_\w{24,}|dp\.(?:pt|st|sa)\.[\w.]{20,}|sl\.[\w-]{60,}",
    r"AGE-SECRET-KEY-1\w{20,}|b3BlbnNzaC1rZXktdjE[\w+/=]*",  # age, OpenSSH
    r"AccountKey=[\w+/=]{20,}|SharedAccessKey=[\w+/=]{20,}|[?&]sig=[\w%+/=-]{20,}",  # Azure
)
_VENDOR_KEY = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_VENDOR_KEYS)})", re.ASCII)
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]{6,}(?:\.[\w-]+){1,4}", re.ASCII)
_BEARER = re.compile(r"(?i)\b(?:bearer|basic)\s+([\w+/=.~-]{12,})", re.ASCII)
_USERINFO = re.compile(r"(?<=://)[^\s/@\"'<>]{1,512}(?=@)")
_PEM_BEGIN = re.compile(
    r"-{3,5} ?BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10})-{3,5}"
    r"|PuTTY-User-Key-File"
)
_PEM_END = re.compile(r"-{3,5} ?END [A-Z0-9 ]{0,60}-{3,5}|Private-MAC: ?\w*")
_PEM_TAIL: Final = 8192
_OPAQUE = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_=-]{16,}")
_OPAQUE_PART = re.compile(r"[A-Za-z0-9+]{20,}")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX = re.compile(r"(?i)(?:0x)?[0-9a-f]{32,}")
_CHANGE = re.compile(
    r"(?<=\d)(?=\D)|(?<=\D)(?=\d)|(?<=[a-z])(?=[^a-z\d])|(?<=[A-Z])(?=[^A-Z\d])"
    r"|(?<=[^\w])(?=[a-zA-Z])"
)
_OPAQUE_LENGTH: Final = 16
_OPAQUE_DIGITS: Final = 3
_LONG_ENOUGH: Final = 20
_DIGITLESS_LENGTH: Final = 28
_SOME_CHANGES: Final = 0.25
_MANY_CHANGES: Final = 0.4
_WORDLIKE_PART = re.compile(r"(?:^|[/_=-])[A-Z]?[a-z]{4,}(?=[/_=-]|$)")


def scrub(text: str) -> Scrubbed:
    """`clean` the turn and put `MARK` where a secret or hidden text stood. Idempotent."""
    found: Counter[str] = Counter()
    text = clean(_cut_hidden(text, found))
    for _ in range(_PASSES):  # cutting one secret can uncover another
        spans = _merge(text, _find(text))
        if not spans:
            break
        pieces: list[str] = []
        at = 0
        for start, end, kind in spans:
            pieces += (text[at:start], MARK)
            found[kind] += 1
            at = end
        text = "".join(pieces) + text[at:]
    return Scrubbed(text, dict(found))


def _cut_hidden(text: str, found: Counter[str]) -> str:
    if text.isascii():
        return text

    def cut(match: re.Match[str]) -> str:
        hidden = match[0]
        if match["flag"] or (hidden[0] in "\u2066\u2068"):
            return hidden
        # An isolate around right-to-left text is how such text is written; Latin in it is a trick.
        if hidden[0] in _BACKWARDS and not re.search("[A-Za-z]{3}", hidden):
            return hidden
        found["hidden_text"] += 1
        return MARK

    return _HIDDEN.sub(cut, text)


def _find(text: str) -> Iterator[Span]:
    plain = _plain(text)
    low = plain.lower()
    if len(low) != len(plain):
        low = plain
    finders: tuple[Callable[[str, str], Iterable[Span]], ...] = (
        _keys,
        _private_keys,
        _opaque_tokens,
        secret_numbers.find,
        secret_prose.find,
    )
    for finder in finders:
        yield from finder(plain, low)


def _merge(text: str, spans: Iterable[Span]) -> list[Span]:
    """Join what overlaps, and leave out what an earlier pass has already marked."""
    merged: list[Span] = []
    for start, end, kind in sorted(spans):
        if merged and start < merged[-1][1]:
            first, last, name = merged[-1]
            merged[-1] = (first, max(last, end), name)
        else:
            merged.append((start, end, kind))
    whole = [_around_marks(text, span) for span in merged]
    return [
        (start, end, kind) for start, end, kind in whole if text[start:end] != MARK and start < end
    ]


def _around_marks(text: str, span: Span) -> Span:
    """Widen a span that ends inside a marker to all of it, trimming markers at its edges."""
    start, end, kind = span
    before = text.rfind(MARK, max(0, start - len(MARK) + 1), start + len(MARK))
    if 0 <= before < start < before + len(MARK):
        start = before + len(MARK)
    after = text.find(MARK, max(start, end - len(MARK) + 1), end + len(MARK) - 1)
    if 0 <= after < end:
        end = after if after + len(MARK) >= end else end
    if start >= end or not re.search(r"\w", text[start:end].replace(MARK, "")):
        return start, start, kind
    return start, end, kind


class _Plain(dict[int, str]):
    """One character for one: full-width and styled forms, accents, digits, spaces, dashes."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        digit = unicodedata.digit(char, None)
        if digit is not None:
            return str(digit)
        kind = unicodedata.category(char)
        if kind in ("Zs", "Zl", "Zp"):
            return " "
        if kind == "Pd":
            return "-"
        if kind in ("Pi", "Pf") or char in "\u201a\u201e":
            return "'" if char in "\u2018\u2019\u201a\u201b\u2039\u203a" else '"'
        if code > _LAST_LATIN and not unicodedata.decomposition(char).startswith("<"):
            return char
        base = unicodedata.normalize("NFKD", char)
        return base[0] if len(base) == 1 or unicodedata.combining(base[1]) else char


_LAST_LATIN: Final = 0x24F
_BARRED: Final = dict(zip("\u0142\u0141\u0111\u00f8\u00d8\u0131", "lLdoOi", strict=True))
_PLAIN = _Plain({code: chr(code) for code in range(0x80)})
_PLAIN.update((ord(barred), letter) for barred, letter in _BARRED.items())


def _plain(text: str) -> str:
    return text if text.isascii() else text.translate(_PLAIN)


def _keys(plain: str, _low: str) -> Iterator[Span]:
    for match in _VENDOR_KEY.finditer(plain):
        yield match.start(), match.end(), "api_key"
    for match in _JWT.finditer(plain):
        yield match.start(), match.end(), "token"
    for match in _BEARER.finditer(plain):
        if _looks_random(match[1]) or any(char.isdigit() for char in match[1]):
            yield match.start(1), match.end(1), "token"
    for match in _USERINFO.finditer(plain):
        if ":" in match[0] or _looks_random(match[0]):
            yield match.start(), match.end(), "password"


def _private_keys(plain: str, _low: str) -> Iterator[Span]:
    at = 0
    while begin := _PEM_BEGIN.search(plain, at):
        end = _PEM_END.search(plain, begin.end(), begin.end() + _PEM_TAIL)
        # A key cut off in the middle is still a key: take what could belong to it.
        at = end.end() if end else min(len(plain), begin.end() + _PEM_TAIL)
        yield begin.start(), at, "private_key"


def _opaque_tokens(plain: str, _low: str) -> Iterator[Span]:
    for match in _OPAQUE.finditer(plain):
        if _looks_random(match[0]):
            yield match.start(), match.end(), "token"
            continue
        for part in _OPAQUE_PART.finditer(plain, match.start(), match.end()):
            if _looks_random(part[0]):
                yield part.start(), part.end(), "token"


def _looks_random(token: str) -> bool:
    """Whether nobody would have typed it: long, and changing between kinds of characters often."""
    core = token.strip("=-_/")
    if len(core) < _OPAQUE_LENGTH or core.isdigit() or _UUID.fullmatch(core):
        return False
    if _HEX.fullmatch(core):
        return True
    if _WORDLIKE_PART.search(core):
        return False
    digits = sum(char.isdigit() for char in core)
    both_cases = not core.islower() and not core.isupper()
    changes = len(_CHANGE.findall(core)) / len(core)
    if digits < _OPAQUE_DIGITS:
        return len(core) >= _DIGITLESS_LENGTH and changes >= _MANY_CHANGES
    is_long = len(core) >= _LONG_ENOUGH
    return changes >= _SOME_CHANGES if is_long else both_cases and changes >= _MANY_CHANGES
