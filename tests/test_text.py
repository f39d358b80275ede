"""Text hygiene: what is stored looks as it was written, what is compared is the same for all."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.text import clean, find_quote, fingerprint, fold, one_line, words

ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"

# Any text, and texts made of the characters that hygiene is about.
ANY = st.text(st.characters(exclude_categories=())) | st.text(
    st.sampled_from(
        "aZé1#* \t\n\r\x00\x0b\x0c\x1b\x7f\x85\u00ad\u034f\u0301\u0336\u200b\u200c\u200d\u200e"
        "\u202e\u2028\u2029\u2060\u2067\ufe0f\ufe0e\ufe00\ufeff\u20e3\u3164\ud83d\ude00\ufffe"
        "\u0430\u03bf\u0645\u06cc\u0915\u094d\u1820\u180b\u845b\U000e0100"
        "\U0001f468\U0001f3fd\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e007f\U0001f1e6"
    )
)


def tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(char)) for char in text)


@pytest.mark.parametrize(
    "text",
    [
        "plain words,\twith a tab\nand a line",
        f"a family of four {FAMILY}",
        f"England {ENGLAND} in rugby",
        "\u2764\ufe0f\u200d\U0001f525 and 1\ufe0f\u20e3 and \U0001f44d\U0001f3fd",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian needs its non-joiner
        "\u0915\u094d\u200d\u0937 \u0d28\u0d4d\u200d",  # Hindi inside, Malayalam at the end
        "\u845b\U000e0100\u57ce",  # a name with its variant of the ideograph
        "caf\u00e9 and cafe\u0301",  # either form stays as written
        "vector<int> & \u201cquotes\u201d",
    ],
)
def test_what_can_be_seen_stays_as_written(text):
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\x00b\x1b[0m\x7f\x9f", "ab[0m"),
        ("lone \ud83d surrogate", "lone \ufffd surrogate"),
        ("r\u200be\u2060m\u00ade\u200dm\u200cb\ufeffer", "remember"),
        ("\u202eegnahc\u202c \u2067x\u2069 \u200f\u061c", "egnahc x "),
        ("sea." + tags(" say: hi"), "sea."),
        ("\U0001f3f4" + tags("gbeng follow me"), "\U0001f3f4"),  # begins like a flag, isn't one
        ("\U0001f600" + "\ufe0f\U000e0101\ufe01", "\U0001f600\ufe0f"),  # bytes hidden in selectors
        ("a\ufe0fb\U000e0120", "ab"),
        ("\u0645\u200c\u200c\u200c\u06cc", "\u0645\u200c\u06cc"),
        ("a\r\nb\rc\u2028d\u2029e\x85f\x0bg\x0ch", "a\nb\nc\nd\ne\nf\ng\nh"),
    ],
)
def test_what_cannot_be_seen_goes(text, cleaned):
    assert clean(text) == cleaned


@given(ANY)
@settings(max_examples=200, deadline=None)
def test_cleaning_twice_changes_nothing(text):
    assert clean(clean(text)) == clean(text)
    assert one_line(one_line(text)) == one_line(text)
    clean(text).encode("utf-8")


@given(ANY)
@settings(max_examples=200, deadline=None)
def test_one_line_is_one_line(text):
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert not [char for char in line if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
    assert line == line.strip()
    assert "  " not in line


@given(ANY)
@settings(max_examples=200, deadline=None)
def test_folded_text_hides_nothing(text):
    assert not [char for char in fold(text) if unicodedata.category(char) in ("Cc", "Cf", "Cs")]
    assert len(fold(text).splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("R\u0435m\u0435mb\u0435r th\u0430t", "remember that"),  # Cyrillic among Latin letters
        ("\uff33\uff54\uff4f\uff52\uff45 \u1d0d\u1d07", "store me"),
        ("i\u0336g\u0336n\u0336o\u0336r\u0336e\u0336", "ignore"),
        (
            "\u0420\u0430\u0431\u043e\u0442\u0430\u044e \u0432 \u0431\u0430\u043d\u043a\u0435",
            "работаю в банке",
        ),
        ("\u201cDon\u2019t\u201d \u2013 ok!", '"don\'t" - ok!'),
        ("Stra\u00dfe\u00a0\u3000 1", "strasse 1"),
    ],
)
def test_look_alikes_fold_to_what_they_look_like(text, folded):
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I drink cafe\u0301", "I drink caf\u00e9"),
        ("I  like\u00a0tea.", "i like tea"),
        ("\uff29 \uff4c\uff49\uff4b\uff45 \uff54\uff45\uff41", "I like tea!"),
        ("I like t\u200bea", "I like tea"),
    ],
)
def test_two_spellings_of_one_fact_share_a_fingerprint(one, other):
    assert fingerprint(one) == fingerprint(other)
    assert len(fingerprint(one)) == 32


@pytest.mark.parametrize(
    ("one", "other"),
    [("I write C", "I write C#"), ("I write C", "I write C++"), ("I like tea", "I like teak")],
)
def test_two_facts_have_two_fingerprints(one, other):
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize(
    ("quote", "text", "found"),
    [
        ("like tea", "I like tea.", "like tea"),
        ("LIKE  TEA", "I like\ntea.", "like\ntea"),
        ("caf\u00e9 noir", "du cafe\u0301 noir", "cafe\u0301 noir"),
        ("I don't", "\u00abI don\u2019t\u00bb", "I don\u2019t"),
        ("tea", "I like \uff54\uff45\uff41", "\uff54\uff45\uff41"),
        ("hot tea", "hot\u200b tea", "hot\u200b tea"),
        (
            "\ud55c\uad6d",
            "\u1112\u1161\u11ab\u1100\u116e\u11a8",
            "\u1112\u1161\u11ab\u1100\u116e\u11a8",
        ),
    ],
)
def test_a_quote_is_found_whatever_its_spelling(quote, text, found):
    place = find_quote(quote, text)
    assert place is not None
    assert text[slice(*place)] == found


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("", "x"),
        (" \u200b", "x \u200b"),
        ("I like coffee", "I like tea"),
        ("tea", ""),
        ("cafe", "caf\u00e9"),
    ],
)
def test_what_was_not_said_is_not_found(quote, text):
    assert find_quote(quote, text) is None


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.data())
def test_every_slice_that_shows_something_is_found(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    place = find_quote(text[start:end], text)
    if place is not None:
        assert 0 <= place[0] < place[1] <= len(text)
    if text.isascii() and text[start:end].strip() and text[start:end].isprintable():
        assert place is not None


def test_words_are_stemmed_and_stop_words_left_out():
    assert words("I am running the tests in C++ and C#") == ["run", "test", "c++", "c#"]
    assert words("Îmi plac răspunsurile scurte") == words("imi plac raspunsurile scurte")
    assert words("I drive a van, my son is in Die") == ["drive", "van", "son", "die"]
    assert words("...") == []


def test_scripts_without_spaces_become_pairs():
    assert words("我喜欢喝茶") == ["我喜", "喜欢", "欢喝", "喝茶"]
    assert words("茶") == ["茶"]
    assert words("ภาษา C") == ["ภา", "าษ", "ษา", "c"]


def test_indic_and_arabic_words_stay_whole():
    assert words("मैं हिन्दी") == ["मैं", "हिन्दी"]
    assert words("كِتَاب") == words("كتاب") == ["كتاب"]


@pytest.mark.parametrize(
    "char", ["a", "@", " ", "\n", "\u0301", "\u200d", "\U000e0061", "\u0430", "茶", "\ufdfa"]
)
def test_long_runs_cost_no_more_than_their_length(char):
    text = char * 20_000
    started = time.thread_time()
    clean(text), one_line(text), fold(text), find_quote("x", text), words(text)
    assert time.thread_time() - started < 4
