"""Which words of a turn may be read as the user's own plain statements, and in what pieces.

Code, logs, quotes, pasted mail, text handed over for editing and play-acting are blanked out, with
all positions kept, so that every piece can still be quoted verbatim.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

MAX_SENTENCES = 200
"""What comes after so many sentences in one turn is a paste, and is not read."""
MAX_SENTENCE = 400
"""Longer runs without an end are dumps, not speech; also what bounds every pattern's work."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A piece of a sentence: `text` is verbatim `turn[start:end]`.

    `actor` is "i" or "we" where the piece goes on from one that named it ("… and work at Acme").
    `asked` marks a piece the user asked to have remembered, `corrects` one led in by "actually".
    `whole` is the sentence it came from, `joint` the words that tie the piece to the one before.
    """

    text: str
    start: int
    whole: str
    actor: str = ""
    asked: bool = False
    corrects: bool = False
    joint: str = ""


_FENCE = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`\n]*[\s(){}=;][^`\n]*`")
_TAGGED = re.compile(
    r"(?<!\w)<([a-zA-Z_][\w-]{0,40})\b[^<>\n]{0,200}>.*?(?:</\1\s*>|\Z)", re.DOTALL
)
_QUOTED = re.compile(
    r'"[^"\n]{1,600}"|“[^”“\n]{1,600}”|„[^„“”\n]{1,600}[“”]|«[^»«\n]{1,600}»|»[^«»\n]{1,600}«'
    r"|(?<!\w)'[^'\n]{1,600}'(?!\w)"
)
_SHORT_QUOTE = 40
_ODD_LINE = re.compile(
    r"^(?:"
    r"(?: {4}|\t).*"
    r"|[ \t]*(?:>|\||[$#%][ \t]).*"
    r"|[ \t]*(?:\[?\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d|\[\w+\] |(?:INFO|WARN(?:ING)?|"
    r"ERROR|DEBUG)\b).*"
    r"|[ \t]*(?:Traceback|File \"|at [\w.$<>]+\(|Caused by:|[\w.]*(?:Error|Exception)\b ?:).*"
    r"|[ \t]*(?:human|assistant|user|system|ai|bot|him|her|[a-z]{1,20}\d{1,6}): .*"
    r"|.*(?:\{ *\"|\" *: |; *$|\) *\{|=>|</|<\||\|>|::|&[a-z]{2,6};).*"
    r")$",
    re.MULTILINE | re.IGNORECASE,
)
_MAIL = re.compile(
    r"^[ \t]*(?:(?:from|to|cc|subject|sent|betreff|von|de|objet):[ \t].*"
    r"|-{3,40}[^\n-]{1,60}(?:message|nachricht).*"
    r"|on .{4,80} wrote:.*|begin forwarded.*|(?:dear|sehr geehrte|liebe[r]?) .{1,60})$",
    re.MULTILINE | re.IGNORECASE,
)
_LETTER = re.compile(r"\n[ \t]*(?:hi|hello|hey|good morning)\b[^\n.!?]{0,40}\n", re.IGNORECASE)
_EDIT_VERB = (
    r"(?:translate|proof-?read|rewrite|re-?phrase|reword|paraphrase|summari[sz]e|summary of|"
    r"(?:fix|correct|check|improve|polish|edit|review)(?: (?:the|my|this|any))?"
    r" ?(?:grammar|spelling|typos?|text|wording|english|mail|e-?mail|letter|paragraph|sentence|"
    r"message|cover letter|bio|draft|essay|cv|post|below|following)|shorten|tl;?dr|"
    r"(?:draft|write|compose|answer|send)(?: \w+){0,3} (?:reply|response|mail|e-?mail|letter|bio|"
    r"cover letter|post|message|text|speech|toast|poem|story|song|tweet)|"
    r"reply to|respond to|make (?:this|it|that) (?:sound|more|less|shorter|longer|better)|"
    r"übersetze?n?|traduce|traduis|traduci|traduz\w*|is this (?:sentence|correct)|"
    r"how do (?:you|i) say|what does|which of these|convert (?:this|the following)|parse|"
    r"classify|tag (?:this|these)|explain (?:this|the following)|decode|"
    r"here(?: i|')s (?:the|a|my|an?) [\w ]{0,30}(?:text|mail|e-?mail|letter|draft|bio|post|log|"
    r"output|transcript|article)|paste[d]? (?:from|below)|the (?:command|api) (?:printed|returned))"
)
_EDIT = re.compile(rf"\b{_EDIT_VERB}\b", re.IGNORECASE)
_PLAY = re.compile(
    r"\b(?:role-?\s?play|pretend|let'?s play|imagine (?:you|that|i|we|a)|act as (?:if|"
    r"though|an?|my|the)|"
    r"you are (?:now )?(?:an?|the) (?!bit|lot|great|good|star|legend|genius|life)|"
    r"(?:write|tell)(?: me)? (?:an?|the) (?:short |bedtime )?(?:story|poem|scene|song|joke)|"
    r"in (?:this|the) (?:story|scenario|game)|my character|hypothetically|thought experiment)\b",
    re.IGNORECASE,
)
_PLAY_ENDS = re.compile(
    r"\b(?:end of (?:role-?play|story)|stop (?:pretending|the role-?play)|out of character|"
    r"back to reality|(?:seriously|for real) now|real question|enough role-?play)\b",
    re.IGNORECASE,
)


def _blank(text: str, start: int, end: int) -> str:
    """Replace by line breaks, which no clause crosses and no pattern matches."""
    return text[:start] + "\n" * (end - start) + text[end:]


def _blank_all(pattern: re.Pattern[str], text: str, *, keep_short: bool = False) -> str:
    def fill(found: re.Match[str]) -> str:
        words = found[0]
        short = (
            keep_short
            and len(words) < _SHORT_QUOTE
            and words.count(" ") <= 1
            and "." not in words[:-2]
        )
        return words if short else "\n" * len(words)

    return pattern.sub(fill, text)


def readable(text: str) -> str:
    """The turn with everything that isn't the user's own plain speech blanked out, same length."""
    text = text.replace("’", "'").replace("‘", "'").replace("\r", "\n")
    for pattern in (_FENCE, _TAGGED, _INLINE_CODE):
        if pattern is not _TAGGED or "<" in text:
            text = _blank_all(pattern, text)
    text = _blank_all(_QUOTED, text, keep_short=True)
    text = _blank_all(_ODD_LINE, text)
    for pattern in (_MAIL, _LETTER):
        if found := pattern.search(text):
            text = _blank(text, found.start(), len(text))
    if found := _EDIT.search(text):
        text = _without_handed_over(text, found)
    return text


def _without_handed_over(text: str, found: re.Match[str]) -> str:
    """Text given for editing follows the request; without anything after it, it came before."""
    start = max(text.rfind("\n", 0, found.start()), text.rfind(". ", 0, found.start()) + 1, 0)
    follows = re.search(r"[\w]", text[_sentence_end(text, found.end()) :])
    if ":" in text[found.end() : found.end() + 120] or follows:
        return _blank(text, start, len(text))
    return _blank(text, 0, len(text))


def _sentence_end(text: str, start: int) -> int:
    found = re.compile(r"[.!?:](?=\s|$)|\n").search(text, start)
    return found.end() if found else len(text)


def is_play(text: str, *, before: bool) -> bool:
    """Whether the user speaks as somebody else in this turn, as perhaps `before` it already."""
    return not _PLAY_ENDS.search(text) and (before or bool(_PLAY.search(text)))


_END = re.compile(
    r"(?<![.!?…。！？])[.!?…。！？]++['\")\]]{0,3}(?=\s|$)|…|[。！？]|\n++|[😀-🙏🤣🥲]++|"
    r"(?<=\s)[:;]-?[)(DP](?=\s|$)"
)
_ABBREVIATION = re.compile(
    r"\b(?:mr|mrs|ms|dr|st|vs|e\.g|i\.e|etc|no|inc|ltd|approx|[A-Z])\.$", re.IGNORECASE
)
_BULLET = re.compile(r"\s*(?:[-*•·+]\s+|\d{1,2}[.)]\s+)?")
_JOKE = re.compile(
    r"(?:\b(?:just kidding|jk|kidding|lol|lmao|rofl|ha ?ha(?:ha)*|as if|yeah right|in my dreams|"
    r"i wish)\b|/s(?=\W|$)|😂|🤣|;-?\)|:-?P\b)",
    re.IGNORECASE,
)
_JOKE_ABOUT_BEFORE = re.compile(
    r"^\W*(?:just )?(?:kidding|jk|joking|not really|/s)\b", re.IGNORECASE
)
_LEADS_OFF = re.compile(r"^\W*(?:ha ?ha(?:ha)*|lol)\b[\s,!.]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, where it starts in the turn, and whether it ends in a question mark."""

    text: str
    start: int
    asks: bool


def sentences(text: str) -> Iterator[Sentence]:
    """Cut readable text into sentences; jokes and dumps are left out."""
    held: Sentence | None = None
    for sentence in _cut(text):
        joke = _JOKE.search(_LEADS_OFF.sub("", sentence.text))
        if joke or _JOKE_ABOUT_BEFORE.match(sentence.text):
            if _JOKE_ABOUT_BEFORE.match(sentence.text):
                held = None
            continue
        if held:
            yield held
        held = sentence
    if held:
        yield held


def _cut(text: str) -> Iterator[Sentence]:
    start = 0
    for found in [*_END.finditer(text), None]:
        end = found.end() if found else len(text)
        piece = text[start:end]
        if found and found[0] == "." and _ABBREVIATION.search(piece[-12:]):
            continue
        mark = found[0] if found else ""
        bullet = _BULLET.match(piece)
        skip = bullet.end() if bullet else 0
        body = piece[skip : len(piece) - len(mark)].rstrip()
        if body and len(body) <= MAX_SENTENCE:
            # A smiling mark belongs to what it follows.
            smile = "😂" if "😂" in mark or "🤣" in mark else ""
            yield Sentence(body + smile, start + skip, "?" in mark or "？" in mark)
        start = end


_VERBS = (
    "live|work|use|speak|prefer|love|like|hate|enjoy|drink|eat|drive|play|run|study|teach|have|own|"
    "am|don't|can't|write|deploy|moved|switched|started|joined|migrated|read|collect|host|ship|"
    "stopped|quit|keep|avoid|dislike|train|volunteer|commute|cycle|cook|want to"
)
_ASKING = (
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|can|could|would|"
    r"should|shall|will|have you|has|any|am i|is there|"
    r"wondering|what's|how's|where's|who's|isn't|aren't|doesn't|don't you|won't|may i)"
)
_STARTS = (
    r"(?:(?:also|now|currently|then|please|still|usually|mostly|that) )?(?:i|i'm|im|"
    r"i've|ive|i'd|we|"
    r"we're|we've|my|our|please|never|always|don't|do not|call me|answer|reply|"
    r"the team|no)\b(?! mean)"
)
_SPLIT = re.compile(
    rf" ?[;—–(\[] ?| -{{1,2}} |: (?={_STARTS})"
    rf"|,? (?:and|but|so|because|cause|cuz|since|as|plus|&|\+) (?={_STARTS}|{_ASKING}\b|let's\b)"
    r"|(?P<on>, (?=(?:based|living|working|originally|currently) ))"
    rf"|, (?={_STARTS}|{_ASKING}\b|though\b)"
    rf"|(?P<same>,? (?:and|but) (?:also |now |then |currently |usually |mostly )?(?={_VERBS}))\b"
    r"|,? (?:so|but|because|though|although|while|whereas|which|who) ",
    re.IGNORECASE,
)
_QUESTION = re.compile(rf"(?:{_ASKING})\b", re.IGNORECASE)
_LEAD = re.compile(
    r"(?:so|well|ok(?:ay)?|hi+|hey+|hello|good (?:morning|evening|afternoon)|yeah|yes|"
    r"yep|no(?=[,:!.-])|nope|"
    r"nah|oh|ah|btw|by the way|fyi|and|but|also|anyway|anyways|for context|for (?:the|your) "
    r"records?|context|some context|quick (?:intro|note|one|update|context)|heads up|"
    r"(?:just )?so (?:that )?you know|note|note that|honestly|tbh|to be honest|in fact|"
    r"as (?:i said|mentioned|you know)|first(?: of all)?|first things first|secondly|sure|thanks|"
    r"thank you|cool|great|nice|right|ha ?ha(?:ha)*|lol|ps|p\.s\.?|update|news|big news|good news|"
    r"small update|sorry|fair enough|same here|correction|(?:a bit|bit|little bit) about (?:me|us)"
    r"|about me|personally|for what it's worth|fwiw|hmm+|umm*|like i said|again|because|since|then|"
    r"there|all|everyone|folks|today i learned that|one (?:more )?thing|another thing|"
    r"(?:for|on|at|with) (?:\w+[:,]? ){1,3}(?=(?:i|i'm|we|we're|my|our)\b)|"
    r"(?:we have|there's|there is|it's|we've got) an? (?:\w+ )?rule(?: here)?(?: that)?|"
    r"(?:now|currently|nowadays|these days|lately)(?= (?:i|i'm|we|we're|my|our)\b)|"
    r"i(?:'d| would) say(?: that)?(?= (?:i|we|my)\b)|"
    r"please(?= (?:note|remember|keep in mind)))"
    r"(?:\s*[,:!.…-]+\s*|\s+|(?<=\s))(?=\S)",
    re.IGNORECASE,
)
_ACTUALLY = re.compile(
    r"(?:actually|wait|correction|scratch that|i (?:mean|meant)(?: to say)?|or rather|sorry|oops|"
    r"my (?:mistake|bad)|make that|no(?=[,:!.-]))(?:\s*[,:!.…-]+\s*|\s+)(?=\S)",
    re.IGNORECASE,
)
_REMEMBER = re.compile(
    r"(?:(?:please|pls|can you|could you|will you|would you|i(?:'d| would) like you to|"
    r"i want you to|you (?:should|can|may)) )*(?:please )?"
    r"(?:remember|keep in mind|bear in mind|note|make a note|take note|don't forget|do not forget|"
    r"never forget|memori[sz]e|for future reference|for next time|worth remembering)"
    r"(?: this| for (?:next time|later|the future))?(?:,? that |: |,? (?=(?:i|i'm|my|"
    r"we|we're|our)\b)| (?=the\b))",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"(?:(?:can|could|would|will) you |i(?:'d| would) (?:like|love|"
    r"prefer)(?: it)?(?: for)? (?:you to |"
    r"that you |if you (?:could |would )?)|i (?:want|need|prefer|expect)(?: that)? you (?:to )?|"
    r"make sure (?:to |you |that you )|be sure to |you (?:should|must|can) (?=always|never)|"
    r"kindly |i('d| would) appreciate it if you )?(?:please |pls )?"
    r"(?=(?:always|never|call me|answer|reply|respond|write to me|stop (?:using|adding|calling)|"
    r"address|keep|speak|talk|use|not|don't)\b)",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"(?:if|unless|suppose|supposing|imagine|let's say|say|assuming|what if|in case|had i|were i|"
    r"whether|once|until|when(?:ever)?|as if|wish|i wish|even if)\b",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"\b(?:says?|said|saying|told|tells|claims?|claimed|wrote|writes|according to|asked me|asks|"
    r"thinks?|thought|heard|reckons|quote|quoting|reads)\b",
    re.IGNORECASE,
)
_ACTOR = re.compile(r"(?:i|i'm|im|i've|ive|we|we're|we've)\b", re.IGNORECASE)


_ELIDED = re.compile(
    r"(?:(?:just|recently|finally|currently|now|also|and|so|btw,?|update:?|"
    r"news:) )*(?:moved (?:to|from)|joined|"
    r"started (?:at|a new job)|left|switched (?:to|from)|living in|based in|"
    r"working (?:at|as|for|on (?:my|our|an?))|learning|studying for|training for|allergic to)\b"
    r"(?!.*\b(?:is|are|was|has|can|makes?|takes?|helps?)\b)",
    re.IGNORECASE,
)
_STANDING = re.compile(
    r"(?:from now on|going forward|as a (?:general )?rule|in future|by default|in general), "
    r"(?:please )?"
    r"(?:don't|do not|never|always|no|use|keep|answer|reply|write|give|be|avoid)\b|"
    r"(?:when(?:ever)?|if|every time|each time) you (?:write|give|show|send|answer|"
    r"explain|suggest|generate|quote|format|"
    r"use|recommend|mention|reply|respond)\b[^,]{0,60}, (?:please )?(?:always|never|"
    r"don't|do not|use|"
    r"keep|add|include|make|write|put|prefer|avoid)\b",
    re.IGNORECASE,
)


def clauses(text: str) -> list[Clause]:
    """The pieces of a turn that state something plainly, in the order said."""
    return [
        piece
        for sentence in islice(sentences(readable(text)), MAX_SENTENCES)
        for piece in _pieces(sentence)
    ]


def _strip_leads(text: str, start: int, end: int) -> tuple[int, bool, bool]:
    """Step over small talk before the statement: (new start, asked to remember, corrects)."""
    asked = corrects = False
    for _ in range(8):
        if found := _REMEMBER.match(text, start, end):
            asked = True
        elif found := _ACTUALLY.match(text, start, end):
            corrects = True
        else:
            found = _LEAD.match(text, start, end)
        if not found:
            break
        start = found.end()
    return start, asked, corrects


def _pieces(sentence: Sentence) -> Iterator[Clause]:
    text, at = sentence.text, 0
    asked, corrects, joint = False, False, ""
    if _STANDING.match(text):
        yield Clause(text, sentence.start, text)
        return
    actor = "i" if _ELIDED.match(text) else ""
    cuts = [*_SPLIT.finditer(text), None]
    found_any: list[Clause] = []
    for cut in cuts:
        end = cut.start() if cut else len(text)
        start, asks, turns = _strip_leads(text, at, end)
        asked, corrects = asked or asks, corrects or turns
        polite = _POLITE.match(text, start, end)
        opened = polite.end() if polite else start
        body = text[opened:end]
        if not polite and _QUESTION.match(body):
            yield from found_any
            return
        if _CONDITION.match(body):
            if found_any:
                break
            return
        said = _ACTOR.match(body)
        if _REPORTS.search(body) and not said:
            break
        piece = Clause(body, sentence.start + opened, text, actor, asked, corrects, joint)
        if body and (polite or not sentence.asks or cut):
            found_any.append(piece)
        named = said[0].lower()[:1].replace("w", "we") if said else actor
        actor = named if cut and (cut["same"] or cut["on"]) else ""
        joint = cut[0].strip().lower() if cut else ""
        at = cut.end() if cut else end
    if not sentence.asks or any(_POLITE.match(text, 0) for _ in found_any):
        yield from found_any
