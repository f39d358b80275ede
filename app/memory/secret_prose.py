"""Passwords, PINs, codes and recovery words told in a sentence, in the languages of the tables.

A noun ("my bank PIN"), a link ("is") and a value. What the value looks like decides how much else
must be there: `Plum!77` needs only the noun near it, `sunshine` needs the whole sentence.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from app.memory.patterns import words_of
from app.stopwords import STOP_WORDS

Span = tuple[int, int, str]

# Lower case, without accents. `strong` nouns hold a secret even if the value is a plain word.
_STRONG: Final = (
    # English
    (
        r"pass ?words?|pass ?codes?|pass ?phrases?|passwd|pwd|pw|tans?|tan list"
        r"|code ?words?|memorable (?:word|name|place|date|information|phrase)"
        r"|pin(?: ?(?:code|number))?s?|pins"
    ),
    (
        r"(?:log ?in|access|door|gate|alarm|entry|safe|lock|unlock|vault|garage|building"
        r"|house|key ?pad"
        r"|security|verification|recovery|back-?up|one-time|2fa|mfa|otp|activation|master"
        r"|secret|sim"
        r"|puk|voicemail|locker|bike|suitcase|phone|encryption|disk|wallet) ?-?(?:codes?"
        r"|combination"
        r"|words?|phrases?)"
    ),
    r"puk|(?:combination|code) lock|(?:door|gate|garage|house|alarm|entry) keypad",
    r"(?:seed|mnemonic|recovery|wallet)[ -]?(?:words?|phrases?|seed)|mnemonic|seed phrase",
    r"(?:security|secret|recovery) (?:question|answer)s?(?: answers?)?|maiden name|safe ?word",
    r"(?:answer|reply) to (?:my|the|our) (?:\w+ )?(?:security|secret) question",
    r"(?:safe|lock|locker|vault) combination|combination (?:of|to|for) (?:my|the|our) \w+",
    r"(?:unlocks?|opens?|disarms?) (?:\w+ )?(?:with|by|using|to)",
    # German, Dutch, Nordic
    (
        r"pass ?wort|kennwort|passphrase|geheimzahl|pin-?(?:nummer|code)|tur-?code|zugangs(?:code"
        r"|daten)"
        r"|entsperr(?:code|muster)|losungswort|sicherheitsfrage|wifi-?passwort|wlan-?(?:passwort"
        r"|schlussel)"
    ),
    (
        r"wacht ?woord|pin ?code|toegangs ?code|losenord|pin-?kod|adgangskode|passord|salasana"
        r"|tunnusluku"
    ),
    # Romance languages
    r"mots? de passe|mdp|code (?:pin|secret|d'acces|de la porte|confidentiel|wifi)|digicode",
    r"contrasena|clave|codigo (?:pin|secreto|de acceso|de seguridad|de la puerta)",
    (
        r"senha|palavra-?passe|codigo (?:secreto|de acesso)|parola d'ordine|codice (?:pin|segreto"
        r"|di accesso)"
    ),
    (
        r"parol[aei](?:le|lor)?|parola mea|pin-?ul|codul? (?:pin|secret|de acces|de la \w+)"
        r"|contrasenya"
    ),
    # Slavic, Hungarian, Turkish, others
    (
        r"hasl[oa]|kod (?:pin|dostepu)|heslo|pin kod|lozinka|sifra|geslo|jelsz(?:o|av)\w*"
        r"|pin-?kod\w*"
        r"|belepokod\w*"
    ),
    r"sifre\w*|parola(?:m|si|yi)\w*|mat khau|kata sandi|sandi",
)
_STRONG_OTHER: Final = (
    r"парол[ьяюеи]\w*|пин-?код\w*|код доступа|кодовое слово|密码|密碼|口令|パスワード"
    r"|暗証番号|비밀번호|암호"
    r"|كلمة (?:المرور|السر)|كلمه (?:المرور|السر)|الرقم السري|رمز(?: عبور)?|گذرواژه|ה?סיסמ[הא]\w*"
    r"|קוד סודי"
    r"|पासवर्ड|รหัสผ่าน|κωδικος|συνθηματικο"
)
_WEAK: Final = (
    r"(?:api|access|private|secret|licen[cs]e|encryption|master|root|signing|ssh|wallet|product"
    r"|auth)"
    r"[ _-]?(?:key|token|secret|string)s?"
    r"|keys?|tokens?|pass"
    r"|credentials?|secrets?|login|log-in|codes?|(?:totp|otp|2fa|mfa|authenticator)(?: seed"
    r"| secret| key| code)?"
    r"|seed|zugang|anmeldung|schlussel|cle(?: api| secrete)?|jetons?|codigo|codice|codul?|chave"
    r"|llave"
    r"|token-ul|cheia?|klucz|kulcs\w*|anahtar\w*|connection string|密钥|令牌|ключ|токен|код|验证码"
)
_NOUN = re.compile(
    rf"(?<![a-z0-9])(?:(?P<strong>{'|'.join(_STRONG)})|(?P<weak>{_WEAK}))(?![a-z0-9])"
    rf"|(?P<other>{_STRONG_OTHER})"
)
_KEYED = re.compile(  # db_password=..., "apiKey": "..."
    r"[\w-]{0,40}(?:passw(?:or)?d|passwd|pwd|secret|token|api_?key|access_?key|private_?key"
    r"|auth)[\w-]{0,20}"
    r"[\"']?\s{0,3}(?::=|=>|=|:)\s{0,3}[\"']?([^\s\"',;]{4,})"
)

_SPACED_DIGITS = re.compile(r"(?<![\w.])\d(?:[ -]\d){2,}(?![\w.])")
_OPTION = re.compile(r"(?:^|\s)(?:-p|--pass(?:word)?[= ]|-u \w{1,40}:)([^\s\"']{4,})")

_UNLOCKING: Final = (
    r"(?:unlock|log(?:ging)? ?in|sign(?:ing)? ?in|decrypt|authenticate|s?ftp|ssh|rdp|vpn)\w*"
)
_TYPED: Final = (
    r"\b(?:type|enter|use|key in|say|with)s? (?:[\"'](?P<quoted>[^\"'\n]{3,60})[\"']"
    r"|(?P<bare>[^\s\"',;]{4,60}))"
)
_ENTERED = re.compile(rf"\b{_UNLOCKING}\b[^!?\n]{{0,60}}?{_TYPED}")
_ENTERED_FIRST = re.compile(rf"{_TYPED}[^!?\n]{{0,60}}?\b{_UNLOCKING}\b")

_LINK = re.compile(
    r"\s(?:is|as|c'est|are|was|be|(?:has|have) (?:always )?been|(?:starts?|begins?"
    r"|ends?)(?: with)?|equals?|reads|(?:has|have"
    r"|contains?|uses?) the words?|consists? of|remains|stays|set to|ist|lautet|sind|est|sont|es"
    r"|son|sera|este|sunt|e|sono"
    r"|jest|to|je|ar|er|heter|on|var|и|это|равен|is nu|luidt|adalah)(?=[\s:'\"])"
    r"|\s?(?:->|=>|:=|=|:|是|为|為|は|는|은|이다|هي|هو|है|คือ|-\s)"
)
_PREPOSITIONS: Final = words_of(
    """
    for of to on at in from with about regarding under here there always mine still fur beim vom zum
    im am bei meines meiner de del der des du da do d'acces al la pour pentru per para din mea meu
    mia mio minha mein van voor na dla od w ke untuk cua number code (
    """
)
# "Password manager", "password policy": what follows is about the tool, not the secret.
_TOOLS: Final = words_of(
    """
    manager managers policy policies hashing hash hashes module field form reset resets generator
    length rules prompt page service strength requirement requirements rotation expiry vault storage
    library check checks checker protection less lifetime format formats handling review reviews
    authentication auth only login logins protected hints hint fields dialog file files screen
    """
)
_QUOTED = re.compile(r"[\"'`]([^\"'`\n]{2,80})[\"'`]")
_ASCII = re.compile("[!-~]")
_VALUE = re.compile(r"[^\s\"'`,;()\[\]<>]{2,}")
_SYMBOLS: Final = frozenset("!@#$%^&*_+=~?|/\\.:-")
_ODD: Final = frozenset("!@#$%^&*_+=~?|\\")
_YEAR = re.compile(r"(?:19|20)\d\d")
_CAMEL = re.compile(r"[a-z].*[A-Z]|[A-Z].*[a-z]")
_SHORTEST: Final = 3
_MIXED: Final = 6
_GROUPED_DIGITS: Final = 4
_LONG: Final = 8
_JOINED_WORDS: Final = 12
_WINDOW: Final = 110
_LIST_WINDOW: Final = 400
_NEAR: Final = 3
_ABOUT: Final = 8
_PHRASE: Final = 3
_WRITTEN_LINKS: Final = frozenset({":", "=", ":=", "->", "=>"})
_LISTED = re.compile(
    r"(?:codes|words|pass ?phrases?|phrase|phrases|seed|mnemonic|secret|totp|otp"
    r"|2fa|mfa)$"
)
_ANSWER = re.compile("answer|question|memorable|frage")
_SENTENCE_END = re.compile(r"[.!?;](?:\s|$)|[\n。]")
_CLAUSE_END = re.compile(
    r"[,;.!?。，\n)](?:\s|$)|\s-\s|[。，]|\s(?:and|but|so|please|und|aber|bitte"
    r"|et|y|e|si|dar|te rog|remember|keep)\s"
)
_GROUPED_BASE32 = re.compile(r"(?<![a-z0-9])[a-z2-7]{3,8}(?:[ -][a-z2-7]{1,8}){2,}")
_BEFORE = re.compile(
    r"([^\s\"'`,;()]{4,60})[\"'`]? (?:is|as|for|being|ist|als|est|comme|es|como|este|ca|e|come"
    r"|jako)"
    r" (?:my|our|the|his|her|a|das|mein\w*|unser\w*|mon|le|notre|mi|la|el|mea|o|la mia|minha"
    r"|a minha|mijn)"
    r"(?: [^\s.;!?]{1,20}){0,4} $"
)
_LOOKBACK: Final = 90
_ENTERED_WITH = re.compile(
    r"\b(?:with|using|use|by|mit|avec|con|com|cu|met|z)(?: the| my| our| a| das| dem| meinem| le"
    r"| mon| la| mi| o| a minha)? $"
)

# After the link these words say something about a password instead of telling it.
_NO_VALUE: Final = words_of(
    """
    a an the in on at by with from for to of my our your his her their this that these those it
    what
    who how why when where which not never always only just also still already usually often
    sometimes
    too very so quite really more less most as no none nothing something anything stored kept
    saved
    managed rotated hashed encrypted salted generated required reset expired expiring changed
    handled
    checked validated optional mandatory shared synced set being weak strong long short secure
    safe
    important different unique complicated complex simple old new bad good better easy hard random
    wrong right correct missing empty hidden visible needed there here gone lost forgotten leaked
    case
    bitwarden 1password keepass keepassxc lastpass dashlane
    zu sehr nicht nie immer nur im bei gespeichert verschlusselt gehasht lang kurz sicher unsicher
    alt
    neu abgelaufen ein eine der die das mein meine wichtig falsch vergessen zuruckgesetzt anders
    trop tres pas jamais toujours dans sur un une le la les mon ma long court sur faible stocke
    oublie
    muy no nunca siempre en el un una mi segura larga corta debil guardada olvidada
    prea foarte nu mereu in pe un o mea lunga scurta sigura slaba uitata salvata expirata
    troppo molto non mai sempre lunga corta sicura debole muito nao nunca sempre longa curta
    segura
    te erg niet nooit altijd een het de lang kort veilig
    """
)
_NO_PHRASE: Final = _PREPOSITIONS | _TOOLS | _NO_VALUE | STOP_WORDS
# Names that look like passwords and are not.
_KNOWN: Final = re.compile(
    r"(?:sha|aes|md|rsa|hs|rs|es|ed|x|utf|base|oauth|fido|argon|bcrypt|scrypt|pbkdf|p|k|s|ec|web"
    r"|http"
    r"|tls|ssl|ipv|wpa|totp|u2f|mfa|2fa|1password|keepass|windows|python|java|log4|node|vue|web3"
    r"|h|gpt"
    r"|iso|nist|rfc|pkcs|ps|i18n|l10n|a11y|k8s|ec2|mp|covid|office|win|php|ruby|rust|c|b2b|b2c|24"
    r"|365)"
    r"[-_.]?[\d.x/-]*(?:id|db|bit)?s?"
)
_NUMBER_WITH_UNIT = re.compile(
    r"\d+(?:[.,]\d+)?(?:%|st|nd|rd|th|x|k|m|gb|mb|kb|ms|s|h|d|min|bit"
    r"|bits|y|yrs|days)?"
)
_NOT_A_VALUE = re.compile(
    r"https?://\S*|www\.\S*|[\w.+-]+@[\w-]+\.[\w.]+|[\w-]+(?:/[\w-]+)+/?"
    r"|[\w-]+\.(?:com|org|net|io|dev|example|js|py)"
)


def find(plain: str, low: str) -> Iterator[Span]:
    """Spans of told secrets; `low` is `plain` in lower case, of the same length."""
    for match in _KEYED.finditer(low):
        if _strength(plain[match.start(1) : match.end(1)]) or match[1] not in _NO_VALUE:
            yield match.start(1), match.end(1), "password"
    for match in _OPTION.finditer(low):
        if _strength(plain[match.start(1) : match.end(1)]):
            yield match.start(1), match.end(1), "password"
    for match in chain(_ENTERED.finditer(low), _ENTERED_FIRST.finditer(low)):
        value = match["quoted"] or match["bare"]
        start = match.start("quoted" if match["quoted"] else "bare")
        if match["quoted"] or value.count("-") > 1 or _strength(plain[start : start + len(value)]):
            yield start, start + len(value), "password"
    for noun in _NOUN.finditer(low):
        yield from _around(plain, low, noun)


def _around(plain: str, low: str, noun: re.Match[str]) -> Iterator[Span]:
    strong = noun["weak"] is None
    back = max(0, noun.start() - _LOOKBACK)
    before = " " in low[back : noun.start()] and _BEFORE.search(low, back, noun.start())
    if before and _strength(plain[before.start(1) : before.end(1)]) >= (1 if strong else 2):
        yield before.start(1), before.end(1), "password"
    listed = bool(_LISTED.search(noun[0]))
    limit = min(len(low), noun.end() + (_LIST_WINDOW if listed else _WINDOW))
    sentence = _SENTENCE_END.search(low, noun.end(), limit)
    stop = sentence.start() if sentence else limit
    if noun["other"] and not _ASCII.search(low, noun.end(), stop):
        return
    link = _LINK.search(low, noun.end(), stop)
    if link is None:
        if noun["other"]:  # these languages may do without a link
            yield from _told(plain, low, (noun.end(), stop), strong=True, fits=True)
        else:
            yield from _directly_after(plain, low, noun, stop)
        return
    about = low[noun.end() : link.start()].split()
    fits = not about or about[0].strip("(") in _PREPOSITIONS or about[0][0] in ",("
    near = fits or (len(about) <= _NEAR and not _TOOLS.intersection(about))
    told = list(_told(plain, low, (link.end(), stop), strong=strong, fits=near))
    if listed:
        told += [
            (match.start(), match.end(), "password")
            for match in _GROUPED_BASE32.finditer(low, link.end(), stop)
            if re.search("[2-7]", match[0])
        ]
    told += [
        (match.start(), match.end(), "password")
        for match in _SPACED_DIGITS.finditer(low, link.end(), stop)
    ]
    yield from told
    spelled_out = (
        listed or _ANSWER.search(noun[0]) is not None or link[0].endswith(("words", "word", " of"))
    )
    written = link[0].strip() in _WRITTEN_LINKS
    if strong and fits and len(about) <= _ABOUT and (written or not told):
        yield from _plain_words(low, (link.end(), stop), everything=spelled_out, written=written)


def _directly_after(plain: str, low: str, noun: re.Match[str], stop: int) -> Iterator[Span]:
    """`pin 2806`, `key hazelnut.river.77`: no link, so the value must speak for itself."""
    value = _VALUE.search(low, noun.end(), stop)
    if value is None or low[noun.end() : value.start()].strip(" ,\"'`"):
        return
    strength = _strength(plain[value.start() : value.end()])
    if strength >= (2 if noun["weak"] else 1):
        yield value.start(), value.end(), "password"
    elif noun["strong"] and value[0] not in _NO_PHRASE:
        clause = _CLAUSE_END.search(low, value.start(), stop)
        end = clause.start() if clause else stop
        said = len(low[value.start() : end].split())
        entered = _ENTERED_WITH.search(low, max(0, noun.start() - _LOOKBACK), noun.start())
        if (_LISTED.search(noun[0]) and said >= _PHRASE) or (entered and said <= _ABOUT):
            yield value.start(), end, "password"


def _told(
    plain: str, low: str, window: tuple[int, int], *, strong: bool, fits: bool
) -> Iterator[Span]:
    start, stop = window
    quoted = _QUOTED.search(low, start, min(stop, start + 40))
    if quoted and fits and (strong or _strength(plain[quoted.start(1) : quoted.end(1)])):
        yield quoted.start(1), quoted.end(1), "password"
        return
    needed = 1 if fits else 2
    for value in _VALUE.finditer(low, start, stop):
        end = value.start() + len(value[0].rstrip(".:!?"))
        if _strength(plain[value.start() : end]) >= needed:
            yield value.start(), end, "password"


def _plain_words(
    low: str, window: tuple[int, int], *, everything: bool, written: bool
) -> Iterator[Span]:
    start, stop = window
    first = _VALUE.search(low, start, stop)
    if first is None or not first[0].isascii():
        return
    word = first[0].strip(".:")
    phrase = everything and len(low[first.start() : stop].split()) >= _PHRASE
    if not (written or phrase) and (word in STOP_WORDS or word in _NO_VALUE or word.isdigit()):
        return
    clause = _CLAUSE_END.search(low, first.start() + 1, stop)
    end = clause.start() if clause and not everything else stop
    if everything or len(low[first.start() : end].split()) <= _ABOUT:
        yield first.start(), end, "password"


def _strength(value: str) -> int:
    """0: a word or a small number; 1: could be a secret; 2: can hardly be anything else."""
    bare = value.strip(".,:!?*\"'`-")
    low = bare.lower()
    if len(bare) < _SHORTEST or _KNOWN.fullmatch(low) or _NOT_A_VALUE.fullmatch(low):
        return 0
    if _NUMBER_WITH_UNIT.fullmatch(low):
        return int(low.isdigit() and len(low) >= _SHORTEST and not _YEAR.fullmatch(low))
    digits = sum(char.isdigit() for char in bare)
    letters = sum(char.isalpha() for char in bare)
    symbols = sum(char in _SYMBOLS for char in bare)
    if digits and letters:
        return 2 if symbols or len(bare) >= _MIXED else 1
    if bare.count("-") > 1 and len(bare) >= _JOINED_WORDS:
        return 1
    if (letters and not _ODD.isdisjoint(bare)) or (symbols and digits >= _GROUPED_DIGITS):
        return 1
    is_camel = _CAMEL.search(bare[1:]) is not None
    return int(is_camel and symbols > 0 and len(bare) >= _LONG)
