"""What can be a fact at all: one declarative sentence, or a standing wish about style.

Questions, one-off requests, code and text without words are not facts; what is true only of this
moment or this task is temporary.
"""

import re
from typing import Final

from app.memory.patterns import one_of

_QUESTION_MARK = re.compile(r"[?？؟⁇]\s*$|[?？؟](?:\s|$|[\"'”’)])")
_ASKS = re.compile(
    r"^(?:\W|so|and|but|hey|hi|ok|also)*\s*(?:what(?:'s| is| are| was| do| does| would| should"
    r"| can)?|which|who(?:'s)?|whom|whose|where(?:'s)?|when (?:is|are|do|(?:does"
    r"|did) (?:it|this|that|the|he|she|they|you|we|i|my|your|any\w*|some\w*)|will|can"
    r"|should)|why|how (?:do|does|can|to|much|many|long|is|are|should|would|about|come)|is (?:it"
    r"|there|this|that)|are (?:you|there|these)"
    r"|do (?:you|we|i)|(?:does|did) (?:it|this|that|the|he|she|they|you|we|i|my|your"
    r"|any\w*|some\w*)|can (?:you|i|we)|could (?:you|i|we)|would (?:you|it)|will (?:you"
    r"|it)|should (?:i|we)|may i|have you|any (?:idea|tips|suggestions|chance))\b"
)
# The first verb of a one-off request. Verbs of style (answer, use, explain, ...) are not here.
_REQUEST_VERBS: Final = (
    r"translate(?! everything| all)|summari[sz]e(?! everything| all| each| every| long)|fix|draft"
    r"|rewrite|rephrase|proofread|paraphrase|debug|refactor|compare|look (?:at|up|into)"
    r"|check (?:this|the|if|whether|my|out|that)|find|search|google|calculate|compute"
    r"|convert (?:this|the|these|\d)|generate|create|build"
    r"|make (?:a|me|the|this|an)|write (?:a|an|me|the|this|some|up|my)|tell (?:me|us) (?:a|about"
    r"|the|what|how|why|if|more)|show (?:me )?(?:the|this|how|what|a|where)|give me (?:a|an|the"
    r"|some|five|ten|three|two|\d+) (?!(?:short|brief|concise|long|detailed)\b)|explain (?:this"
    r"|that|the following|what this|why (?:this|the)|how (?:this|the|to))|help me|help with|parse"
    r"|review (?:this|the|my|that)|analy[sz]e|list (?:the|all|some|five|ten|\d)"
    r"|pretend|imagine|suppose|let's|let us|remind me|set (?:a|an|the) (?:timer|alarm|reminder)"
    r"|book|schedule|cancel|order|play|open (?!with\b)|close|stop (?!using|adding|saying|being"
    r"|giving|writing|with|the\b|asking)|start (?!with|answers?|repl|by|each|every|all"
    r"|responses?)|wait|continue|go on|try again|repeat|read (?:this|the)|finish|complete|extract"
    r"|count|sort|merge|commit|push|deploy|install|run|execute|test this|paste[ds]?|decode|delete"
    r"|remove|add (?:a|the|this|that)|change (?:the|this|that|line|it)|update (?:the|this|that"
    r"|line)|rename|move (?:the|this|that)|replace|undo|print|describe|solve|plot|draw|edit"
    r"|shorten|improve|correct (?:this|the|my)|got this (?:mail|email|message)|here(?:'s"
    r"| is) (?:the|a|my|what)|fyi\b|forwarded|(?:hello|hi|hey|thanks|thank you|good (?:morning"
    r"|evening|night)|ok(?:ay)?|yes|no|sure|great|lol|haha)(?=\s*(?:[,!.]|$))"
)
_REQUEST = re.compile(
    rf"^(?:\W|please|can you|could you|now|then|just|kindly|i (?:want|need|would like) you to"
    rf"|i'd like you to|bitte)*\s*(?:(?:{_REQUEST_VERBS})\b(?!\s*(?:-|is\b|are\b|was\b)))"
    r"|^(?:\W|bitte|te rog|por favor|s'il te plait|per favore|prosze|lutfen)*(?:fasse?\b"
    r"|ubersetz\w*|erklar\w* (?:mir )?(?:das|diesen|den)|schreib\w* (?:mir )?(?:eine?n?|das"
    r"|diesen)\b|such\w*|zeig\w* mir|hilf mir|rezuma\w*|tradu\w*|corecteaz\w*|scrie-mi|arata-mi"
    r"|ajuta-ma|cauta|resume\w*|traduis\w*|corrige\w*|ecris-moi|aide-moi|montre-moi|resum\w+"
    r"|traduc\w+|escribeme|ayudame|busca|mostre-me|riassum\w+|riassumi|tradur\w+|correggi"
    r"|scrivimi|aiutami|vertaal|vat samen|przetlumacz|stresc)\b"
    r"|^(?:请|請)?(?:你)?(?:帮我|幫我|帮忙|总结|總結|翻译|翻譯|解释一下|写一|寫一|查一下"
    r"|修改|改一下|告诉我|请问)|^(?:переведи|исправь"
    r"|напиши|найди|объясни|помоги|покажи|сделай|расскажи|подскажи)\b|^(?:ترجم|لخص|اكتب لي|ساعدني"
    r"|اشرح لي)|(?:教えて|訳して|直して|書いて|해 ?줘|번역해|알려 ?줘)[。.!]?$"
)
_HEARSAY = re.compile(
    r"^(?:someone|somebody|they|people|he|she|my \w+) (?:told me|said|claims?"
    r"|thinks?) (?:that )?you\b|^if i (?:were|was|had)\b|\bhypothetically\b|^(?:suppose|imagine"
    r"|let's say)\b|\bha ha\b|\bjust kidding\b|\bjk\b|^(?:wenn ich .{0,30} ware"
    r"|daca as fi|si j'etais"
    r"|si yo fuera|se io fossi|如果我是)"
)
_CODE = one_of(
    r"^\s*(?:\$ |>>> |#!/|import \w+(?:\s*$|;)|from \w+ import|def \w+\(|class \w+[:(]"
    r"|function \w*\(|const \w+ ?=|let \w+ ?=|var \w+ ?=|public |private |#include"
    r"|select .+ from |insert into |create table|export \w+=|curl |git \w+|docker |sudo "
    r"|pip install|npm )"
    r"|[;{}]\s*$|\w\([^)]*\);|=>\s*\{|\breturn \w+;|\(\)\s*\{|</|/>|\bnull;|==|!=|&&|\|\||\+="
    r"|::\w+\("
)
_LETTER = re.compile(r"[^\W\d_]")
_MIN_LETTERS: Final = 4
_IDEOGRAM = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")

_TEMPORARY = one_of(
    r"\b(?:right now|at the moment|at this moment|as we speak|today|tonight|tomorrow|yesterday"
    r"|this (?:time|once|morning|afternoon|evening|minute|second|weekend)|just now|for now"
    r"|for the moment|in (?:a|an|one|two|five|ten|twenty|thirty|\d+) (?:minutes?|mins?|hours?"
    r"|seconds?|moment|bit)"
    r"|(?:for|in) (?:this|that|the current|the next|this one) (?:\w+ )?(?:only|mail|e-?mail"
    r"|message|question|answer|reply|task|chat|conversation|session|thread|one|letter|document"
    r"|file|email|text)|just (?:for )?(?:this|once)|only (?:for )?(?:this|once|now)|one-off"
    r"|in a hurry|i(?:'m| am) on my way|about to|currently (?:at|on|in the|waiting"
    r"|boarding|driving|sitting"
    r"|stuck|eating)"
    r"|i(?:'m| am) (?:now )?(?:tired|hungry|bored|sleepy|busy|stuck|running late|late|cold|hot"
    r"|waiting (?:in|at|for (?:a|the|my) (?:bus|train|plane|flight|call|delivery|doctor|reply"
    r"|taxi))|boarding|driving|sitting|at the (?:airport|station|gym|office|doctor|supermarket"
    r"|beach|door|gate|bus stop)|on the (?:bus|train|plane|phone|road|metro|subway))"
    r"|is \d+ degrees|the (?:build|server|site|test|deploy\w*|pipeline|page|app) is (?:red|down"
    r"|broken|failing|slow|green))\b"
    r"|\b(?:azi|astazi|diseara|maine|chiar acum|in momentul asta|momentan|doar (?:pentru"
    r"|de) (?:asta|data asta|intrebarea|mesajul|acum)|de data asta|pentru (?:intrebarea|mesajul"
    r"|mailul) (?:asta|acesta)|sunt (?:obosit|grabit|ocupat|in drum)\w*)\b"
    r"|\b(?:heute|gerade (?:im|in|auf|am|an|beim|unterwegs|noch|nicht)|morgen frueh|jetzt gerade"
    r"|im moment|momentan|diesmal|dieses mal|nur (?:fur|bei|in) (?:diese\w*|das|die)|nur jetzt"
    r"|bin (?:mude|unterwegs|in eile|spat dran))\b"
    r"|\b(?:aujourd'hui|ce soir|en ce moment|pour l'instant|cette fois|juste pour (?:ce|cette)"
    r"|seulement pour (?:ce|cette)|je suis (?:fatigue|presse|en route|en retard)\w*)\b"
    r"|\b(?:hoy|esta noche|ahora mismo|en este momento|esta vez|solo para (?:este|esta|esto)"
    r"|por ahora|estoy (?:cansad|apurad|ocupad|de camino)\w*|hoje|agora mesmo|neste momento"
    r"|desta vez|so para (?:este|esta|isto)|estou (?:cansad|com pressa|a caminho)\w*|oggi|stasera"
    r"|in questo momento|questa volta|solo per (?:questo|questa)|per ora|sono (?:stanc|di fretta"
    r"|in ritardo)\w*)\b"
    r"|\b(?:vandaag|vanavond|op dit moment|deze keer|dzisiaj|dzis|w tej chwili|tym razem|ma este"
    r"|most epp|jelenleg|ezuttal|bugun|su anda|bu seferlik|сегодня|прямо сеичас|прямо сейчас"
    r"|в данныи момент|на этот раз)\b"
    r"|今天|今晚|刚才|剛才|等会|等會|待会|马上|馬上|这次|這次|此刻|现在(?:正|在.{0,8}上)"
    r"|今日は|今夜|今回だけ|오늘|지금|이번만|اليوم|الان فقط"
    r"|هذه المره|امروز|الان|این بار|היום|כרגע|הפעם|วันนี้|ตอนนี้|आज|अभी"
)
_DEADLINES: Final = frozenset({"tomorrow", "tonight", "this weekend", "this evening", "maine"})
# A word of time that belongs to something lasting.
_LASTING = re.compile(
    r"\b(?:to this day|bis heute|every (?:\w+ )?(?:morning|evening)|these days"
    r"|as of today|since (?:today|yesterday|this morning)|starting (?:today|tomorrow)|from (?:today"
    r"|tomorrow|now) on|de azi inainte|ab heute|a partir de hoy|desde hoy|de hoje em diante"
    r"|a partir d'aujourd'hui|da oggi|usa today|psychology today)\b|从今天(?:起|开始)"
)


def lacks_form(folded: str) -> bool:
    """Whether a text is a question, a request, code or no sentence at all. Folded, no accents."""
    letters = len(_LETTER.findall(folded))
    if letters < _MIN_LETTERS and not _IDEOGRAM.search(folded):
        return True
    return bool(
        _QUESTION_MARK.search(folded)
        or _ASKS.search(folded)
        or _REQUEST.search(folded)
        or _HEARSAY.search(folded)
        or _CODE.search(folded)
    )


def is_temporary(folded: str, *, may_have_deadline: bool = False) -> bool:
    """Whether a text is true only of this moment or this task. Folded, no accents.

    What is to be reached by "this weekend" is no less a goal.
    """
    moments = [match[0] for match in _TEMPORARY.finditer(folded)]
    if may_have_deadline:
        moments = [moment for moment in moments if moment not in _DEADLINES]
    return bool(moments) and not _LASTING.search(folded)
