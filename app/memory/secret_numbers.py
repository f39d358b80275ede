"""Numbers that identify or pay: cards, accounts, national numbers, written or spelled out.

A number is cut when its check digits say what it is, or when the words before it do.
"""

import importlib
import re
from collections.abc import Iterator
from typing import Final

from app.memory.patterns import one_of, words_of

Span = tuple[int, int, str]

_LONG_RUN: Final = 64
_DIGIT_RUN = re.compile(r"(?<!\d)\d(?:[ ./-]{0,2}\d){6,}(?!\d)")
_GROUP = re.compile(r"\d+")
_CARD_LENGTHS: Final = range(13, 20)
_NAMED_CARD_LENGTHS: Final = range(12, 20)
_CARD_START = re.compile(r"3[04-9]|4|5|6|2[2-7]|81|9792")
_CARD_WORDS = re.compile(
    r"card|carte|kart|tarjeta|carta|cartao|cartao|kaart|visa|mastercard|amex|maestro|credit|debit"
    r"|карт|信用卡|银行卡|卡号|カード|카드|بطاق|כרטיס"
)
_CARD_CHECK = re.compile(
    r"\b(?:cvv2?|cvc2?|csc|cid|security code|card code|prufziffer|prufnummer|cryptogramme)\b"
    r"\W{0,3}(?:is|ist|est|es|este|e|:|=)?\W{0,3}(\d(?: ?\d){2,3})\b"
)

_IBAN = re.compile(r"(?<![a-z0-9])[a-z]{2}\d{2}(?:[ -]?[a-z0-9]){11,30}")
_SSN = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_SEVEN_DIGITS = re.compile(r"(?:\d[^\d\n]{0,8}){6}\d")
_ID_WORDS = one_of(
    # English
    r"\b(?:passport|card(?:'s)? (?:number|no\b)|driv(?:er|ing)(?:'?s)? licen[cs]e"
    r"|social security|social ?[:#]|ssn|itin"
    r"|tax (?:id|number|file)"
    r"|taxpayer|tin\b|national (?:id|insurance|number)|ni number|nino\b|id (?:card|number|no\b)"
    r"|identity (?:card|number|document)|nhs number|medicare"
    r"|insurance (?:card )?(?:number|no\b|id)|aadhaar"
    r"|pan (?:card|number)|account (?:number|no\b)|routing number|sort code|iban|bank account"
    r"|vat id"
    r"|resident permit|residence permit|green card"
    # German, Dutch
    r"|steuer-?(?:id|nummer|identifikationsnummer)|personalausweis\w*|ausweis\w*|reisepass\w*"
    r"|fuhrerschein\w*|sozialversicherungs\w*|rentenversicherungs\w*|versichertennummer|kontonummer"
    r"|konto|bankverbindung|bsn|burgerservicenummer|paspoort\w*|rijbewijs\w*|rekeningnummer"
    # Romance languages
    r"|passeport|securite sociale|permis de conduire|carte d'identite|numero fiscal"
    r"|numero de compte|rib\b"
    r"|dni\b|nie\b|nif\b|nss\b|pasaporte|cedula|carne de conducir|curp|rfc\b|numero de cuenta"
    r"|codice fiscale|passaporto|carta d'identita|patente|conto corrente|cpf\b|rg\b|cnh\b"
    r"|passaporte"
    r"|cartao de cidadao|cnp\b|cnp-ul|buletin\w*|cartea? de identitate|serie (?:ci|si numar)"
    r"|pasaport\w*"
    r"|permis\w* auto|contul? (?:bancar|iban)|cont bancar"
    # Slavic, Hungarian, Turkish, Nordic
    r"|pesel|dowod\w*|paszport\w*|prawo jazdy|nip\b|rodne cislo|rodne c|cestovni pas|egn\b|oib\b"
    r"|szemelyi\w*|utlevel\w*|tajszam\w*|taj szam\w*|adoazonosito\w*|jogositvany\w*|tckn?\b"
    r"|kimlik|pasaport|personnummer|cpr\b|fodselsnummer|hetu\b)"
    r"|паспорт|инн\b|снилс|водительск|身份证|护照|驾照|驾驶证|社保|账号|帐号|パスポート"
    r"|マイナンバー|免許"
    r"|여권|주민등록|جواز|هوية|الهوية|رقم الحساب|کد ملی|شماره ملی|گذرنامه|דרכון|תעודת זהות"
)
_AFTER_ID_WORD: Final = 70
_ID_VALUE = re.compile(
    r"(?<![a-z0-9])[a-z]{0,4}-?\d[a-z0-9]*(?:[ ./-]{1,2}[a-z]{0,2}\d[a-z0-9]*)*(?:[ -]?[a-z]\b)?"
)
_DATE = re.compile(r"(?<![a-z0-9])(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|(?:19|20)\d\d)(?![a-z0-9])")
_ID_DIGITS: Final = 5
_ID_LENGTH: Final = 7
_ACCOUNT_WORDS = re.compile(
    r"\b(?:account|acct|routing|konto|cuenta|compte|conto|cont|conta"
    r"|rekening|rachunek|szamla|hesap)\b"
)
_ACCOUNT_DIGITS: Final = 8

# Numbers whose own check digits are proof enough: (shape, module of python-stdnum).
_CHECKED: Final = (
    (re.compile(r"(?<![a-z0-9])[1-9]\d{12}(?![a-z0-9])"), "ro.cnp"),
    (
        re.compile(r"(?<![a-z0-9])[a-z]{6}\d{2}[a-z]\d{2}[a-z]\d{3}[a-z](?![a-z0-9])"),
        "it.codicefiscale",
    ),
    (re.compile(r"(?<![a-z0-9])\d{17}[\dx](?![a-z0-9])"), "cn.ric"),
    (re.compile(r"(?<![a-z0-9])\d{8}-?[a-z](?![a-z0-9])"), "es.dni"),
    (re.compile(r"(?<![a-z0-9])[xyz]-?\d{7}-?[a-z](?![a-z0-9])"), "es.nie"),
    (
        re.compile(r"(?<![a-z0-9])[12] ?\d{2} ?\d{2} ?\d[\dab] ?\d{3} ?\d{3} ?\d{2}(?![a-z0-9])"),
        "fr.nir",
    ),
    (re.compile(r"(?<![a-z0-9])\d{11}(?![a-z0-9])"), "pl.pesel"),
    (re.compile(r"(?<![a-z0-9])\d{6}[+a-]\d{3}[a-z0-9](?![a-z0-9])"), "fi.hetu"),
    (re.compile(r"(?<![a-z0-9])(?:\d{2})?\d{6}[-+]\d{4}(?![a-z0-9])"), "se.personnummer"),
    (re.compile(r"(?<![a-z0-9])\d{3}\.\d{3}\.\d{3}-\d{2}(?![a-z0-9])"), "br.cpf"),
    (re.compile(r"(?<![a-z0-9])\d{4} \d{4} \d{4}(?![ a-z0-9]?[a-z0-9])"), "in_.aadhaar"),
    (re.compile(r"(?<![a-z0-9])[a-z]{4}\d{6}[hmx][a-z]{5}[a-z0-9]\d(?![a-z0-9])"), "mx.curp"),
    (re.compile(r"(?<![a-z0-9])\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}(?![a-z0-9])"), "be.nn"),
    (re.compile(r"(?<![a-z0-9])\d{6}/\d{3,4}(?![a-z0-9])"), "cz.rc"),
)

_DIGIT_WORDS: Final = words_of(
    """
    zero oh nought nil one two three four five six seven eight nine double triple
    null eins zwei zwo drei vier funf sechs sieben acht neun
    cero uno dos tres cuatro cinco seis siete ocho nueve
    un deux trois quatre cinq sept huit neuf
    due tre quattro cinque sei sette otto nove um dois quatro sete oito
    unu doi trei patru cinci sase sapte opt noua nul een twee drie vijf zes zeven negen
    ноль один два три четыре пять шесть семь восемь девять
    jeden dwa trzy cztery piec szesc siedem osiem dziewiec
    sifir bir iki uc dort bes alti yedi sekiz dokuz
    nulla egy ketto harom negy ot hat het nyolc kilenc
    """
)
_DIGIT_WORD: Final = "|".join(sorted(_DIGIT_WORDS, key=len, reverse=True))
_SPELLED = re.compile(rf"\b(?:{_DIGIT_WORD})(?:[ ,.\n-]{{1,3}}(?:{_DIGIT_WORD}|\d)\b){{2,}}")
_SPELLED_HAN = re.compile("[零〇一二三四五六七八九壹贰叁肆伍陆柒捌玖幺两]{4,}")
_SPELLED_SURELY: Final = 8
_SPELLED_CONTEXT = re.compile(
    r"\b(?:pins?|pin-ul|codes?|codul|cod|passcode|password|pwd|cvv|cvc|digits|card|ssn|security"
    r"|account|konto|nummer"
    r"|geheimzahl|passwort|mot de passe|contrasena|clave|codigo|codice|senha|parola|wachtwoord"
    r"|haslo"
    r"|sifre|jelszo|numar\w*)\b|密码|密碼|卡号|пин|пароль|код"
)
_BEFORE_SPELLED: Final = 60


def find(plain: str, low: str) -> Iterator[Span]:
    """Spans of numbers to cut from a turn; `low` is `plain` in lower case, of the same length."""
    yield from _cards(low)
    yield from _accounts(plain, low)
    yield from _identity_numbers(low)
    yield from _spelled(low)


def _cards(low: str) -> Iterator[Span]:
    for run in _DIGIT_RUN.finditer(low):
        groups = [match.span() for match in _GROUP.finditer(low, run.start(), run.end())]
        digits = sum(end - start for start, end in groups)
        if digits > _LONG_RUN:
            if len(groups) > 1:
                yield run.start(), run.end(), "card"
            continue
        named = bool(_CARD_WORDS.search(low, max(0, run.start() - 40), run.start()))
        if named and digits in _NAMED_CARD_LENGTHS:
            yield run.start(), run.end(), "card"
            continue
        for first in range(len(groups)):
            number = ""
            for start, end in groups[first:]:
                number += low[start:end]
                if len(number) in _CARD_LENGTHS and _CARD_START.match(number) and _luhn(number):
                    yield groups[first][0], end, "card"
    for match in _CARD_CHECK.finditer(low):
        yield match.start(1), match.end(1), "card"


def _luhn(number: str) -> bool:
    total = 0
    for place, char in enumerate(reversed(number)):
        digit = int(char) * (1 + place % 2)
        total += digit // 10 + digit % 10
    return total % 10 == 0


def _accounts(plain: str, low: str) -> Iterator[Span]:
    for match in _IBAN.finditer(low):
        compact = re.sub("[ -]", "", match[0])
        for length in range(min(34, len(compact)), 14, -1):
            end = match.start() + _length_with_gaps(match[0], length)
            if _mod97(compact[:length]) == 1 and _is_no_sentence(plain[match.start() : end]):
                yield match.start(), end, "account"
                break
    for match in _SSN.finditer(plain):
        yield match.start(), match.end(), "national_id"


def _mod97(iban: str) -> int:
    moved = iban[4:] + iban[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97


def _is_no_sentence(iban: str) -> bool:
    # The letters of one sentence in a hundred happen to have the right remainder.
    return iban.isupper() or sum(char.isdigit() for char in iban) >= len(iban) / 3


def _length_with_gaps(text: str, length: int) -> int:
    seen = 0
    for at, char in enumerate(text):
        seen += char not in " -"
        if seen == length:
            return at + 1
    return len(text)


def _identity_numbers(low: str) -> Iterator[Span]:
    if _SEVEN_DIGITS.search(low):
        for shape, module in _CHECKED:
            for match in shape.finditer(low):
                if _is_valid(module, match[0]):
                    yield match.start(), match.end(), "national_id"
    # Numbers are rarer than the words that could name them, and quicker to look for.
    if any(_could_identify(value[0]) for value in _ID_VALUE.finditer(low)):
        yield from _named_numbers(low)


def _named_numbers(low: str) -> Iterator[Span]:
    for word in _ID_WORDS.finditer(low):
        for value in _ID_VALUE.finditer(low, word.end(), word.end() + _AFTER_ID_WORD):
            if _could_identify(value[0]):
                yield value.start(), value.end(), "national_id"
    for word in _ACCOUNT_WORDS.finditer(low):
        for value in _DIGIT_RUN.finditer(low, word.end(), word.end() + _AFTER_ID_WORD):
            if sum(char.isdigit() for char in value[0]) >= _ACCOUNT_DIGITS:
                yield value.start(), value.end(), "account"


def _could_identify(value: str) -> bool:
    number = _DATE.sub("", value).strip()
    digits = sum(char.isdigit() for char in number)
    return digits >= _ID_DIGITS or (digits > 1 and len(number.split(" ")[0]) >= _ID_LENGTH)


def _is_valid(module: str, number: str) -> bool:
    # Loaded at the first number of that shape: most turns have none.
    checker = importlib.import_module(f"stdnum.{module}")
    return bool(checker.is_valid(number.upper()))


def _spelled(low: str) -> Iterator[Span]:
    for pattern in (_SPELLED, _SPELLED_HAN):
        for match in pattern.finditer(low):
            said = (
                len(match[0]) if pattern is _SPELLED_HAN else len(re.split(r"[ ,.\n-]+", match[0]))
            )
            before = max(0, match.start() - _BEFORE_SPELLED)
            if said >= _SPELLED_SURELY or _SPELLED_CONTEXT.search(low, before, match.start()):
                yield match.start(), match.end(), "spelled_number"
