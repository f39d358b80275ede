"""Passwords, PINs, codes and recovery words told in a sentence, in the languages of the tables.

A noun ("my bank PIN"), a link ("is") and a value. What the value looks like decides how much else
must be there: `Plum!77` needs only the noun near it, `sunshine` needs the whole sentence.
"""

import re
from collections.abc import Iterator
from typing import Final

Span = tuple[int, int, str]

# Lower case, without accents. `strong` nouns hold a secret even if the value is a plain word.
_STRONG: Final = (
    # English
    r"pass ?words?|pass ?codes?|pass ?phrases?|passwd|pwd|pass|pin(?: ?(?:code|number))?s?|pins",
    r"(?:log ?in|access|door|gate|alarm|entry|safe|lock|unlock|vault|garage|building|house|key ?pad"
    r"|security|verification|recovery|back-?up|one-time|2fa|mfa|otp|activation|master|secret|sim"
    r"|puk|voicemail|locker|bike|suitcase|phone) ?-?(?:codes?|combination|words?|phrases?)",
    r"(?:seed|mnemonic|recovery|wallet)[ -]?(?:words?|phrases?|seed)|mnemonic|seed phrase",
    r"(?:security|secret|recovery) (?:question|answer)s?(?: answers?)?|maiden name|safe ?word",
    r"(?:answer|reply) to (?:my|the|our) (?:\w+ )?(?:security|secret) question",
    r"(?:safe|lock|locker|vault) combination|combination (?:of|to|for) (?:my|the|our) \w+",
    # German, Dutch, Nordic
    r"pass ?wort|kennwort|passphrase|geheimzahl|pin-?(?:nummer|code)|tur-?code|zugangs(?:code|daten)"
    r"|entsperr(?:code|muster)|losungswort|sicherheitsfrage|wifi-?passwort|wlan-?(?:passwort|schlussel)",
    r"wacht ?woord|pin ?code|toegangs ?code|losenord|pin-?kod|adgangskode|passord|salasana|tunnusluku",
    # Romance languages
    r"mots? de passe|mdp|code (?:pin|secret|d'acces|de la porte|confidentiel|wifi)|digicode",
    r"contrasena|clave|codigo (?:pin|secreto|de acceso|de seguridad|de la puerta)",
    r"senha|palavra-?passe|codigo (?:secreto|de acesso)|parola d'ordine|codice (?:pin|segreto|di accesso)",
    r"parol[aei](?:le|lor)?|parola mea|pin-?ul|codul? (?:pin|secret|de acces|de la \w+)|contrasenya",
    # Slavic, Hungarian, Turkish, others
    r"hasl[oa]|kod (?:pin|dostepu)|heslo|pin kod|lozinka|sifra|geslo|jelszo\w*|pin-?kod\w*|belepokod\w*",
    r"sifre\w*|parola(?:m|si|yi)\w*|mat khau|kata sandi|sandi",
)
_STRONG_OTHER: Final = (
    r"парол[ьяюеи]\w*|пин-?код\w*|код доступа|кодовое слово|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호"
    r"|كلمة (?:المرور|السر)|كلمه (?:المرور|السر)|الرقم السري|رمز(?: عبور)?|گذرواژه|ה?סיסמ[הא]\w*|קוד סודי"
    r"|पासवर्ड|รหัสผ่าน|κωδικος|συνθηματικο"
)
_WEAK: Final = (
    r"(?:api|access|private|secret|licen[cs]e|encryption|master|root|signing|ssh|wallet|product|auth)"
    r"[ _-]?(?:key|token|secret|string)s?"
    r"|(?:my|our|the|part \w+ of (?:my|the|our)) (?:\w+ )?(?:keys?|tokens?|secrets?|codes?)|keys?|tokens?"
    r"|credentials?|secrets?|login|log-in|codes?|(?:totp|otp|2fa|mfa|authenticator)(?: seed| secret| key| code)?"
    r"|seed|zugang|anmeldung|schlussel|cle(?: api| secrete)?|jetons?|codigo|codice|codul?|chave|llave"
    r"|token-ul|cheia?|klucz|kulcs\w*|anahtar\w*|connection string|密钥|令牌|ключ|токен|код|验证码"
)
_NOUN = re.compile(
    rf"(?<![a-z0-9])(?:(?P<strong>{'|'.join(_STRONG)})|(?P<weak>{_WEAK}))(?![a-z0-9])"
    rf"|(?P<other>{_STRONG_OTHER})"
)
_KEYED = re.compile(  # db_password=..., "apiKey": "..."
    r"[\w-]{0,40}(?:passw(?:or)?d|passwd|pwd|secret|token|api_?key|access_?key|private_?key|auth)[\w-]{0,20}"
    r"[\"']?\s{0,3}(?::=|=>|=|:)\s{0,3}[\"']?([^\s\"',;]{4,})"
)

_LINK = re.compile(
    r"\s(?:is|are|was|be|remains|stays|set to|ist|lautet|sind|est|sont|es|son|sera|este|sunt|e|sono"
    r"|jest|to|je|ar|er|heter|on|var|и|это|равен|is nu|luidt|adalah)(?=[\s:'\"])"
    r"|\s?(?:->|=>|:=|=|:|是|为|為|は|는|은|이다|هي|هو|है|คือ|-\s|,\s)"
)
_PREPOSITIONS: Final = frozenset(
    "for of to on at in from with under here there always mine still fur beim vom zum im am bei meines"
    " meiner de del der des du da do d'acces al la pour pentru per para din mea meu mia mio minha meu"
    " mein van voor na do dla od w ke untuk cua number code ( of".split()
)
_QUOTED = re.compile(r"[\"'`]([^\"'`\n]{2,80})[\"'`]")
_VALUE = re.compile(r"[^\s\"'`,;()\[\]<>]{2,}")
_WINDOW: Final = 110
_LIST_WINDOW: Final = 400
_LISTED = re.compile(r"(?:codes|words|phrase|phrases|seed|mnemonic|secret|totp|otp|2fa|mfa)$")
_SENTENCE_END = re.compile(r"[.!?;](?:\s|$)|[\n。]")
_CLAUSE_END = re.compile(
    r"[,;.!?。，\n)](?:\s|$)|\s-\s|[。，]|\s(?:and|but|so|please|und|aber|bitte|et|y|e|si|dar|te rog|remember|keep)\s"
)
_GROUPED_BASE32 = re.compile(r"(?<![a-z0-9])[a-z2-7]{3,8}(?:[ -][a-z2-7]{1,8}){2,}")
_BEFORE = re.compile(
    r"([^\s\"'`,;()]{4,})[\"'`]? (?:is|as|for|being|ist|als|est|comme|es|como|este|ca|e|come|jako)"
    r" (?:my|our|the|his|her|a|das|mein\w*|unser\w*|mon|le|notre|mi|la|el|mea|o|la mia|minha|a minha|mijn)"
    r"(?: [^\s.;!?]{1,20}){0,4} $"
)
_LOOKBACK: Final = 90

# After the link these words say something about a password instead of telling it.
_NO_VALUE: Final = frozenset(
    """
    a an the in on at by with from for to of my our your his her their this that these those it what
    who how why when where which not never always only just also still already usually often sometimes
    too very so quite really more less most as no none nothing something anything stored kept saved
    managed rotated hashed encrypted salted generated required reset expired expiring changed handled
    checked validated optional mandatory shared synced set being weak strong long short secure safe
    important different unique complicated complex simple old new bad good better easy hard random
    wrong right correct missing empty hidden visible needed there here gone lost forgotten leaked case
    bitwarden 1password keepass keepassxc lastpass dashlane
    zu sehr nicht nie immer nur im bei gespeichert verschlusselt gehasht lang kurz sicher unsicher alt
    neu abgelaufen ein eine der die das mein meine wichtig falsch vergessen zuruckgesetzt anders
    trop tres pas jamais toujours dans sur un une le la les mon ma long court sur faible stocke oublie
    muy no nunca siempre en el un una mi segura larga corta debil guardada olvidada
    prea foarte nu mereu in pe un o mea lunga scurta sigura slaba uitata salvata expirata
    troppo molto non mai sempre lunga corta sicura debole muito nao nunca sempre longa curta segura
    te erg niet nooit altijd een het de lang kort veilig
    """.split()
)
# Names that look like passwords and are not.
_KNOWN: Final = re.compile(
    r"(?:sha|aes|md|rsa|hs|rs|es|ed|x|utf|base|oauth|fido|argon|bcrypt|scrypt|pbkdf|p|k|s|ec|web|http"
    r"|tls|ssl|ipv|wpa|totp|u2f|mfa|2fa|1password|keepass|windows|python|java|log4|node|vue|web3|h|gpt"
    r"|iso|nist|rfc|pkcs|ps|i18n|l10n|a11y|k8s|ec2|mp|covid|office|win|php|ruby|rust|c|b2b|b2c|24|365)"
    r"[-_.]?[\d.x/-]*(?:id|db|bit)?s?"
)
_NUMBER_WITH_UNIT = re.compile(
    r"\d+(?:[.,]\d+)?(?:%|st|nd|rd|th|x|k|m|gb|mb|kb|ms|s|h|d|min|bit|bits|y|yrs|days)?"
)
_NOT_A_VALUE = re.compile(
    r"https?://\S*|www\.\S*|[\w.+-]+@[\w-]+\.[\w.]+|[\w-]+(?:/[\w-]+)+/?|[\w-]+\.(?:com|org|net|io|dev|example|js|py)"
)


def find(plain: str, low: str) -> Iterator[Span]:
    """Spans of told secrets; `low` is `plain` in lower case, of the same length."""
    for match in _KEYED.finditer(low):
        if _strength(plain[match.start(1) : match.end(1)]) or match[1] not in _NO_VALUE:
            yield match.start(1), match.end(1), "password"
    for noun in _NOUN.finditer(low):
        yield from _around(plain, low, noun)


def _around(plain: str, low: str, noun: re.Match[str]) -> Iterator[Span]:
    strong = noun["weak"] is None
    before = _BEFORE.search(low, max(0, noun.start() - _LOOKBACK), noun.start())
    if before and _strength(plain[before.start(1) : before.end(1)]) >= (1 if strong else 2):
        yield before.start(1), before.end(1), "password"
    listed = bool(_LISTED.search(noun[0]))
    limit = min(len(low), noun.end() + (_LIST_WINDOW if listed else _WINDOW))
    sentence = _SENTENCE_END.search(low, noun.end(), limit)
    stop = sentence.start() if sentence else limit
    link = _LINK.search(low, noun.end(), stop)
    if link is None:
        yield from _directly_after(plain, low, noun, stop)
        return
    about = low[noun.end() : link.start()].split()
    fits = not about or about[0].strip("(") in _PREPOSITIONS
    told = list(_told(plain, low, (link.end(), stop), strong=strong, fits=fits))
    if listed:
        told += [
            (match.start(), match.end(), "password")
            for match in _GROUPED_BASE32.finditer(low, link.end(), stop)
            if re.search("[2-7]", match[0])
        ]
    yield from told
    if not told and strong and fits and len(about) <= 8:
        yield from _plain_words(low, link.end(), stop, everything=listed)


def _directly_after(plain: str, low: str, noun: re.Match[str], stop: int) -> Iterator[Span]:
    """`pin 2806`, `key hazelnut.river.77`: no link, so the value must speak for itself."""
    value = _VALUE.search(low, noun.end(), stop)
    if value is None or low[noun.end() : value.start()].strip(" \"'`"):
        return
    strength = _strength(plain[value.start() : value.end()])
    if strength >= (2 if noun["weak"] else 1):
        yield value.start(), value.end(), "password"


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


def _plain_words(low: str, start: int, stop: int, *, everything: bool) -> Iterator[Span]:
    first = _VALUE.search(low, start, stop)
    if first is None or first[0].strip(".:") in _NO_VALUE or not first[0].isascii():
        return
    if everything:
        yield first.start(), stop, "password"
        return
    clause = _CLAUSE_END.search(low, first.start() + 1, stop)
    end = clause.start() if clause else stop
    if len(low[first.start() : end].split()) <= 6:
        yield first.start(), end, "password"


def _strength(value: str) -> int:
    """0: a word or a small number; 1: could be a secret; 2: can hardly be anything else."""
    bare = value.strip(".,:!?*\"'`-")
    low = bare.lower()
    if len(bare) < 3 or _KNOWN.fullmatch(low) or _NOT_A_VALUE.fullmatch(low):
        return 0
    digits = sum(char.isdigit() for char in bare)
    letters = sum(char.isalpha() for char in bare)
    if _NUMBER_WITH_UNIT.fullmatch(low):
        is_year = len(low) == 4 and low[:2] in ("19", "20")
        return 1 if digits >= 3 and not is_year and digits == len(low) else 0
    symbols = sum(char in "!@#$%^&*_+=~?|/\\.:-" for char in bare)
    odd = sum(char in "!@#$%^&*_+=~?|\\" for char in bare)
    if digits and letters and (symbols or len(bare) >= 6):
        return 2
    if (digits and letters) or (odd and letters) or (digits >= 4 and symbols):
        return 1
    upper_inside = any(char.isupper() for char in bare[1:]) and any(char.islower() for char in bare)
    return 1 if upper_inside and symbols and len(bare) >= 8 else 0
