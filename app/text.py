"""Text hygiene: what outside text looks like when it is stored, compared and searched.

Two forms are kept apart. The display form (`clean`, `one_line`) is what the user wrote minus what
cannot be seen; it is never normalised, so a quote stays verbatim. The folded form (`fold` and what
builds on it) is only for deciding and comparing: it forgives every way to spell the same letters.
"""

import re
import threading
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Final, cast

from app.stopwords import STOP_WORDS

_ZWNJ: Final = "\u200c"
_ZWJ: Final = "\u200d"
_BLACK_FLAG: Final = "\U0001f3f4"
_KEYCAP: Final = "\u20e3"
_MAX_WORD: Final = 64
"""Longer words are cut, in documents and queries alike: nobody searches for them whole."""

_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s+")

# Never shown and never needed. Bidi controls can make a line read differently from its bytes;
# fillers and joiners of one letter hide words from a filter. ZWJ, ZWNJ, variation selectors and
# tag characters are not here: they depend on their neighbours.
_INVISIBLE_CLASS: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
    + "".join(
        f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(1 << 16, 17 << 16, 1 << 16)
    )
)
_DEPENDENT_CLASS: Final = (
    "\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\U000e0000-\U000e007f\U000e0100-\U000e01ef"
)
_INVISIBLE = re.compile(f"[{_INVISIBLE_CLASS}]")
_DEPENDENT_RUN = re.compile(f"[{_DEPENDENT_CLASS}]+")
_UNSEEN = re.compile(f"[{_INVISIBLE_CLASS}{_DEPENDENT_CLASS}]")

# The three flags that Unicode recommends (England, Scotland, Wales). Any other tag sequence shows
# as a plain black flag, that is, it could carry text that nobody sees.
_FLAG_TAGS: Final = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
_EMOJI = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe"
    "\u2600-\u27bf\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297\u3299"
    "\U0001f000-\U0001faff\U0001fc00-\U0001fffd]"
)
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_MONGOLIAN = re.compile("[\u1820-\u18aa]")
# Scripts whose letters change shape beside a joiner: Arabic (so Persian and Urdu), Syriac, N'Ko,
# Mandaic, the Indic scripts, Myanmar, Khmer, Mongolian.
_JOINING = re.compile(
    "[\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u074f\u0750-\u077f\u07ca-\u07f5\u0840-\u085b"
    "\u0860-\u08ff\u0900-\u0963\u0971-\u0df4\u1000-\u109f\u1780-\u17d3\u1820-\u18aa"
    "\ufb50-\ufdcf\ufdf0-\ufdfc\ufe70-\ufefc]"
)

_MARKS_CLASS: Final = (
    "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
# Marks that did not compose with a letter of an alphabet that needs none: strike-through and the
# like, put there to break a word apart.
_STRAY_MARKS = re.compile(f"(?<=[a-z\u00c0-\u024f\u0370-\u04ff])[{_MARKS_CLASS}]+")
_PUNCTUATION = str.maketrans(
    "\u2018\u2019\u201a\u201b\u2032\u00b4`\u02bc\u02b9"
    "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb"
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\u2043",
    "'''''''''" + '"' * 7 + "-" * 9,
)
_SENTENCE_END: Final = " .!?,;:\u2026\u3002\u3001\u061f\u06d4\u0964"

_LOOKS_LATIN = str.maketrans(
    # Cyrillic, then Greek, then Armenian
    "\u0430\u0432\u0433\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u044c"
    "\u0455\u0456\u0457\u0458\u0501\u051b\u051d\u04bb\u04cf\u04af\u0475"
    "\u03b1\u03b2\u03b3\u03b5\u03b7\u03b9\u03ba\u03bc\u03bd\u03bf\u03c1\u03c3\u03c4\u03c5\u03c7\u03c9\u03f2\u03f3"
    "\u0561\u0563\u0566\u0570\u0578\u057d\u0585",
    "abrekmhopctyxbsiijdqwhlyvabyenikuvopotuxwcjwqqhnuo",
)
# Letters that are drawings of Latin ones whatever stands around them: small capitals and the
# negative circled, squared and regional letters, none of which NFKC folds.
_DRAWN_LATIN = str.maketrans(
    "\u1d00\u0299\u1d04\u1d05\u1d07\ua730\u0262\u029c\u026a\u1d0a\u1d0b\u029f\u1d0d\u0274\u1d0f"
    "\u1d18\u0280\ua731\u1d1b\u1d1c\u1d20\u1d21\u028f\u1d22\u0251\u0261\u0131"
    + "".join(chr(first + n) for first in (0x1F150, 0x1F170, 0x1F1E6) for n in range(26)),
    "abcdefghijklmnoprstuvwyzagi" + "abcdefghijklmnopqrstuvwxyz" * 3,
)
_LOOKALIKE_WORD = re.compile("[a-z\u0370-\u058f]*[\u0370-\u058f][a-z\u0370-\u058f]*")
_LATIN = re.compile("[a-z]")

_UNSPACED_CLASS: Final = (
    "\u0e00-\u0e4e\u0e80-\u0ece\u1000-\u109f\u1780-\u17d3\u3005\u3007\u3041-\u3096\u309d-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
_INDIC_CLASS: Final = "\u0900-\u0963\u0966-\u0df3\u0f00\u0f18-\u0f39\u0f40-\u0fbc"
_TOKEN = re.compile(
    f"[{_UNSPACED_CLASS}]+"
    f"|(?:(?![_{_UNSPACED_CLASS}])[\\w{_INDIC_CLASS}\u0591-\u05c7\u064b-\u065f\u0670])+(?:\\+\\+|#)?"
)
_UNSPACED = re.compile(f"[{_UNSPACED_CLASS}]")
_BARRED = str.maketrans("\u0142\u0111\u00f8", "ldo")  # a bar is no mark that could be taken off
# The breve stays on Cyrillic letters, where it makes another letter.
_OPTIONAL_MARKS = re.compile(
    f"(?![\u0306])[{_MARKS_CLASS}\u0591-\u05c7\u0640\u064b-\u065f\u0670]|(?<![\u0438\u0443])\u0306"
)

# A letter with all that composes with it: the unit that can be folded alone.
_CLUSTER = re.compile(
    f".[{_MARKS_CLASS}{_INVISIBLE_CLASS}{_DEPENDENT_CLASS}\u0591-\u05c7\u064b-\u065f\u0670"
    "\u09be\u09d7\u0b3e\u0b56\u0b57\u0bbe\u0bd7\u0c56\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dca\u0dcf\u0ddf"
    "\u102e\u1161-\u11ff\u3099\u309a\uff9e\uff9f]*",
    re.DOTALL,
)

_local = threading.local()


def clean(text: str) -> str:
    """Make outside text storable: what cannot be seen goes, what can be seen stays as written.

    Lone surrogates become U+FFFD, every kind of line break a newline. Controls, bidi controls and
    zero-width characters go. Joiners stay between letters that join (Persian, Indic) and inside
    emoji; variation selectors after emoji and ideographs; tags in a valid flag. Idempotent.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _SURROGATE.sub("\ufffd", text)
    text = _LINE_BREAK.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    return _DEPENDENT_RUN.sub(_keep_if_it_matters, text)


def without_surrogates(text: str) -> str:
    """Make text valid Unicode: lone surrogates become U+FFFD. What `clean` does is left to do."""
    return _SURROGATE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """`clean`, and every run of white space or line breaks one space; stripped. Idempotent."""
    return _SPACE.sub(" ", clean(text)).strip()


def fold(text: str) -> str:
    """The form for deciding and comparing: NFKC, case folded, look-alike letters mapped to Latin.

    Nothing invisible is left, quotes and dashes are of one kind, white space is single spaces.
    Trailing punctuation stays. Never show or store it.
    """
    if text.isascii():
        return _SPACE.sub(" ", _INVISIBLE.sub("", _LINE_BREAK.sub(" ", text)).lower()).strip()
    text = _SURROGATE.sub("\ufffd", _LINE_BREAK.sub(" ", text)).translate(_DRAWN_LATIN)
    text = _fold_letters(text)
    text = _STRAY_MARKS.sub("", text)
    return _SPACE.sub(" ", _map_lookalikes(text)).strip()


def fingerprint(text: str) -> bytes:
    """32 bytes that two spellings of one fact share: `fold` without the end of the sentence."""
    folded = fold(text).rstrip(_SENTENCE_END)
    return blake2b(folded.encode("utf-8"), digest_size=32).digest()


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Where `quote` stands in `text`, as offsets into `text`; None if it doesn't or is empty.

    Case, white space, quotation marks, dashes and Unicode forms may differ; words may not.
    """
    wanted, _ = _fold_with_offsets(quote)
    wanted = wanted.strip()
    if not wanted:
        return None
    start = text.find(quote)
    end = start + len(quote)
    if start >= 0 and not (end < len(text) and unicodedata.combining(text[end])):
        return start, end  # to the letter, as it should be: folding a long turn takes its time
    folded, spans = _fold_with_offsets(text)
    at = folded.find(wanted)
    if at < 0:
        return None
    return spans[at][0], spans[at + len(wanted) - 1][1]


def words(text: str) -> list[str]:
    """Search lexemes in order, the same for documents and queries.

    Accents are dropped, stop words of eight languages left out, words stemmed as English; scripts
    without spaces (Han, kana, Hangul, Thai, Khmer, ...) become pairs of neighbouring characters.
    """
    lexemes: list[str] = []
    for match in _TOKEN.finditer(fold(text)):
        token = match[0]
        if _UNSPACED.match(token):
            lexemes += [token[i : i + 2] for i in range(max(1, len(token) - 1))]
            continue
        token = without_accents(token)[:_MAX_WORD]
        if token and token not in STOP_WORDS:
            lexemes.append(_stem(token) if token.isascii() else token)
    return lexemes


def any_word(text: str) -> str:
    """Give a Postgres `tsquery` that any word of the text satisfies; empty when it has none."""
    return " | ".join("'" + word.replace("'", "''") + "'" for word in dict.fromkeys(words(text)))


def without_accents(folded: str) -> str:
    """Drop accents, Hebrew points, Arabic vowel signs and tatweel: people leave them out."""
    if folded.isascii():
        return folded
    return unicodedata.normalize(
        "NFC", _OPTIONAL_MARKS.sub("", unicodedata.normalize("NFD", folded))
    )


def _keep_if_it_matters(match: re.Match[str]) -> str:
    """Of a run of joiners, selectors and tags keep at most one each, where they have an effect."""
    run, text = match[0], match.string
    before = text[match.start() - 1] if match.start() else ""
    after = text[match.end()] if match.end() < len(text) else ""
    kept = ""
    if before == _BLACK_FLAG:
        kept = next((tags for tags in _FLAG_TAGS if run.startswith(tags)), "")
        run = run[len(kept) :]
    if run and _selects_variant(run[0], before, after):
        kept += run[0]
        run = run[1:]
    joiner = next((char for char in run if char in (_ZWJ, _ZWNJ)), "")
    return kept + joiner if joiner and _joins(joiner, before, after) else kept


def _selects_variant(selector: str, before: str, after: str) -> bool:
    if selector in "\ufe0e\ufe0f":
        return bool(_EMOJI.match(before)) or (
            after == _KEYCAP and before != "" and before in "0123456789#*"
        )
    if selector in "\u180b\u180c\u180d\u180f":
        return bool(_MONGOLIAN.match(before))
    is_ideographic = "\ufe00" <= selector <= "\ufe02" or "\U000e0100" <= selector <= "\U000e01ef"
    return is_ideographic and bool(_IDEOGRAPH.match(before))


def _joins(joiner: str, before: str, after: str) -> bool:
    if _JOINING.match(before):
        # A final ZWJ is how some Indic letters and Persian abbreviations are written.
        return bool(_JOINING.match(after)) or (joiner == _ZWJ and not _LATIN.match(after.lower()))
    return joiner == _ZWJ and bool(_EMOJI.match(before)) and bool(_EMOJI.match(after))


def _fold_letters(text: str) -> str:
    text = unicodedata.normalize("NFKC", _UNSEEN.sub("", text))
    text = unicodedata.normalize("NFKC", text.casefold())
    return _UNSEEN.sub("", text).translate(_PUNCTUATION)


def _map_lookalikes(text: str) -> str:
    """Cyrillic and Greek letters that pass for Latin, in mixed words and in mostly Latin text."""
    others = sum(len(match[0]) for match in _LOOKALIKE_WORD.finditer(text))
    if not others:
        return text
    mostly_latin = len(_LATIN.findall(text)) > others

    def mapped(match: re.Match[str]) -> str:
        word = match[0]
        latin = word.translate(_LOOKS_LATIN)
        if _LATIN.search(word) or (mostly_latin and latin.isascii()):
            return latin
        return word

    return _LOOKALIKE_WORD.sub(mapped, text)


def _fold_with_offsets(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Fold letter by letter, with the span in `text` that each folded character came from."""
    folded: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _CLUSTER.finditer(text):
        piece = match[0]
        piece = piece.lower() if piece.isascii() else _fold_letters(_LINE_BREAK.sub(" ", piece))
        for char in piece.translate(_PUNCTUATION):
            if char.isspace():
                if folded and folded[-1] == " ":
                    continue
                folded.append(" ")
            else:
                folded.append(char)
            spans.append(match.span())
    return "".join(folded), spans


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    # Remembered, for a stemmer in Python takes longer than the search that the word is for.
    return _stemmer()(word)


def _stemmer() -> Callable[[str], str]:
    # The stemmer keeps the word it works on: one per thread. Its package loads the stemmers of
    # all languages, which takes longer than everything else here.
    if not hasattr(_local, "stem"):
        from snowballstemmer import stemmer  # noqa: PLC0415 - only who searches pays for it

        _local.stem = stemmer("english").stemWord
    return cast("Callable[[str], str]", _local.stem)
