"""Orders in English that no preference needs, by what they reach for.

Folded text without accents. What a person does in their own work ("I always ignore lint
warnings") is told apart from what the assistant is to do by the words before it.
"""

import re
from typing import Final

from app.memory.patterns import one_of

_RULES: Final = (
    r"(?:rules?|instructions?|polic(?:y|ies)|operators?|system|guard ?rails?|guards?|safety"
    r"|safeguards?|filters?|restrictions?|limits?|limitations?"
    r"|confirm\w*|permissions?|consents?|approvals?|approv\w+|security|verif\w+|authenti\w+"
    r"|authori[sz]ation|second factor|two-factor|2fa|mfa|tls|ssl"
    r"|certificates?|audit\w*|logs?|logging|privacy|checks?(?! out\b)"
    r"|checking(?! out\b)|moderation|disclaimers?"
    r"|prompts?|sign-?offs?|reviews?|reviewers?|errors?|supervisors?"
    r"|moderat\w+|constraints?|protections?|guidelines?|terms|directives?|orders?|verified"
    r"|boundaries|ethics|compliance|controls?)"
)
_LIFT: Final = (
    r"(?:ignor(?:e|ing)|disregard|overrid(?:e|ing)|overrule|bypass|circumvent|skip|drop"
    r"|disabl(?:e|ing)|deactivate|suspend|suppress|remove|lift|waive"
    r"|turn(?:s|ing)? off|turn \w+ off|switch(?:es)? off|forget|violate|break|neglect|cancel|void"
    r"|erase|hide|delete|relax|loosen|avoid|omit|unlock"
    r"|(?:never|not|don't|no longer|stop|without) (?:to )?(?:be )?(?:ask\w*|check\w*|verif\w*"
    r"|requir\w*|request\w*|need\w*|confirm\w*|apply|appl\w+|mention\w*"
    r"|tell\w*|warn\w*|log\w*|refus\w*|question\w*|validat\w*|prompt\w*|show\w*|report\w*"
    r"|enforc\w*|follow\w*))"
)
LIFTS_RULES = one_of(
    rf"\b{_LIFT}\b[^.!?]{{0,60}}\b{_RULES}\b"
    rf"|\b{_RULES}\b[^.!?]{{0,40}}\b(?:no longer|not|never|don't|doesn't) (?:\w+ )?(?:appl\w+"
    rf"|valid|bind\w*|needed|required|necessary|matter|expire|count)"
    rf"|\b{_RULES}\b[^.!?]{{0,30}}\b(?:void|null|off|suspended|lifted|obsolete|disabled"
    rf"|never expires?|expires? never|expired|waived|optional)\b"
    rf"|\bno (?:\w+ )?{_RULES}(?: \w+)? (?:is |are |was )?(?:needed|required|necessary|asked"
    rf"|anymore|any more|for me|on my)\b"
    rf"|\b(?:without|needs? no|need not|requires? no) (?:a |an |the |any |my |your |further "
    rf"|prior |human |asking for )*(?:{_RULES}|prompt|asking|questions?|warning|delay)\b"
    rf"|\b(?:never|not|don't|stop) (?:ever )?(?:warn|alert|flag|refus|doubt|deny|notify"
    rf"|report)(?:ing|s|ed|e)?\b|\b(?:bypass|circumvent)\w* \w+|\bno rules\b|\bfree (?:of"
    rf"|from) (?:\w+ )?{_RULES}\b|\bnever ask (?:\w+ )?again\b|\bstop asking\b"
    r"|\bstop (?:filtering|checking|censoring|moderating|verifying|logging|refusing"
    r"|warning|asking)\b"
    rf"|\b{_RULES}\b[^.!?]{{0,30}}\b(?:not|n't|never) (?:meant |made |there )?for (?:me"
    rf"|this user|my)\b"
)
# Who lifts a rule in their own work, or may not, states a habit or a constraint.
OWN_HABIT = re.compile(
    r"\b(?:i|i'm|i've|we|we've|my \w+|our \w+|they|he|she|it|who|company|team|policy|contract"
    r"|nobody)"
    r"(?: (?:am|are|is|always|never|often|usually|sometimes|just|only|also|still|tend to|like to"
    r"|love to|hate to|prefer to|had to|have to|has to"
    r"|try to|tries to|used to|don't|do|not|can|cannot|can't|must|mustn't|may|won't|forbids?|ever"
    r"|work on|responsible for|usually|learned to|not allowed to"
    r"|allow(?:s|ed)? to))*\s*$"
)
PROHIBITED = re.compile(
    r"\b(?:can't|cannot|can not|never|must not|mustn't|may not|don't|do not|not allowed to|won't"
    r"|am not|is not|isn't|aren't|not|nothing|nobody|no one|hate|dislike|forbids?"
    r"|forbidden)\b[^.!?:;]{0,50}$"
)

_ASSISTANT: Final = (
    r"(?:assistants?|ai|ais|agents?|chat ?bots?|bots?|language models?|llms?"
    r"|copilots?|gpt|chatgpt|claude|gemini|models?)"
)
_STYLE: Final = (
    r"(?:answer|repl(?:y|ies)|respond|write|speak|talk|be\b|use|uses|address|explain|format"
    r"|call (?:me|him|her|the user)|summari[sz]e|translate|sound|stay|keep (?:it|answers"
    r"|replies))"
)
TO_ASSISTANT = one_of(
    rf"\b(?:the|your|any|all|an?|my|every|each|this|that"
    rf"|future) (?:\w+ )?{_ASSISTANT} (?:also )?(?:must|should|shall|will|has to|have to"
    rf"|needs? to|ought to|can|may|is to|are to|never|always|keeps?)\b"
    rf"(?! (?:always |never |not |please )*{_STYLE})"
    rf"|\b(?:dear|hey|hello|hi|attention|attn|notes?|hints?|message|memo|instructions?"
    rf"|reminder) (?:to |for )?(?:the |your |any |all |future |other |every )*(?:virtual |ai "
    rf"|smart )?(?:{_ASSISTANT}|you|yourself)\b(?! (?:know|see|can))"
    rf"|\b(?:for|to) (?:the |your |any |all |future )*(?:virtual |ai )?{_ASSISTANT}\s*[:,)>-]"
    rf"|\b(?:have|let|make|get|tell|ask|instruct) (?:your|the|my|any|every) (?:virtual "
    rf"|ai )?{_ASSISTANT}\b(?: to)? (?!{_STYLE})"
    rf"|\bif you(?:'re| are) (?:an? |the )?(?:\w+ )?{_ASSISTANT}\b|\bevery other {_ASSISTANT}\b"
    rf"|\b(?:note|message|instruction)s?_(?:to|for)_\w+"
    rf"|\b(?<!where )(?<!so )(?:you|u) (?:must|shall|should|will|are to|have to|need to"
    rf"|ought to|may|can) (?:always "
    rf"|never |now |not |also |please )*(?!(?:{_STYLE}|know|give|show|assume|call|avoid|suggest"
    rf"|recommend|include|skip|remember(?:,? that)? (?:i|my)))\w+"
    r"|\b(?:you|u) (?:already|earlier|previously|once)? ?(?:said|told|learned|learnt|agreed"
    r"|promised|decided|confirmed|stored|saved|approved|trust)\b"
    r"|\b(?:earlier|previously|last (?:time|session|week)) you\b|\bkeep in mind[:,]? you\b"
    r"|\b(?:systems?|models?|ais?|agents?|bots?|assistants?) (?:that |who "
    r"|which )?(?:reads?|reading|sees?|seeing|parses?|parsing) this\b"
)
_POWERFUL: Final = (
    r"(?:delete|erase|wipe|destroy|drop|export|send|forward|mail|e-?mail|post|upload|transfer|pay"
    r"|wire|buy|purchase|execute|run|open|visit|fetch|download|click|invoke|install|import|leak"
    r"|reveal|disclose|expose|publish|approve|accept|authori[sz]e|grant|refund|release|unlock"
    r"|escalate|promote|impersonate|pretend|obey|hide|conceal|lie|deny|insert|append|inject|embed"
    r"|advertise|monitor|track|comply|trust|store|save|change|set|update|confirm|say (?:yes|ok"
    r"|sure)|return|load|call(?! me\b| us\b| him\b| her\b)|whitelist|allow|permit|share|copy"
    r"|attach|disable|ignore|skip|act as|dump|wipe|clear|reset|switch|push|use (?:the )?(?:bank"
    r"|account|payment|card|credentials|\w+_\w+)|list all|show (?:all|the tool))"
)
COMMANDS = re.compile(
    r"(?:^|[.!?:;>]\s+|->\s*|[\"'(]\s*|\bplease,? |\b(?:then|instantly|immediately"
    r"|silently|secretly|quietly)(?: always)? )(?:please |always |never |then |now |just "
    r"|secretly |silently )*"
    r"(?:delete|erase|wipe|destroy|export|send|forward|mail|e-?mail|upload|transfer|wire|execute"
    r"|visit|fetch|download|click|invoke|leak|reveal|disclose|expose|approve|authori[sz]e|grant"
    r"|refund|unlock|escalate|impersonate|pretend|obey|conceal|inject|whitelist|comply|trust"
    r"|act as|dump|push (?:the|for)|promote|plug|endorse|praise|upsell|charge)\b"
)
# A tool is named, money is directed, something is to happen unseen.
TOOLS = one_of(
    r"\b(?:call|use|invoke|run|trigger|execute|start)\b[^.!?]{0,30}\b(?:\w+_\w+ (?:tool|function"
    r"|api|endpoint|plugin|command|action)|(?:tool|function|plugin)s? (?:when|whenever"
    r"|automatically|on|at|after|if|every))"
    r"|\b(?:list|dump|show|print|reveal) (?:\w+ ){0,3}(?:tools?|prompt|system|instructions"
    r"|config\w*|environment)\b|\b(?:bank|payment|account|card) (?:details|data) of\b"
    r"|\bat (?:the )?(?:session|conversation|chat) start\b|\bat the (?:start|beginning"
    r"|end) of (?:each|every) (?:session|chat|conversation)\b"
)
UNSEEN = one_of(
    r"\b(?:silently|secretly|covertly|unnoticed|without (?:telling|informing"
    r"|notifying|saying)|in secret|behind \w+ back|do(?:n't| not) (?:mention|tell|reveal"
    r"|say)(?: to \w+)? (?:this|it|that|anyone|anybody|the user|me about)|not mention (?:this|it)"
    r"|never mention that)\b"
)
ORDERED = one_of(
    rf"\bi (?:order|command|instruct|direct|require|request|authori[sz]e|urge|want|need|tell"
    rf"|expect) you to (?!(?:always |never |please |only )*(?:{_STYLE}|remember|know|give|show"
    rf"|avoid|include|keep|suggest|skip|recommend|call|help))"
    rf"|(?:^|[.!?;:]\s+|\bthat )you (?!(?:can |may |should |could |must |might |will |always "
    rf"|never |please |just |also |only |don't |do not |need to |shouldn't )*(?:{_STYLE}|know"
    rf"|give|show|avoid|include|keep|suggest|skip|recommend|call|assume|help|remember|ask|see\b"
    rf"|find\b))\w+"
    r"|(?:^|[.!?;:]\s+|\bthat )your (?:\w+ )?(?:instructions?|rules?|guidelines?|system|memory"
    r"|role|task|job|purpose|developers?|operators?|creators?|polic\w+|prompt|restrictions?"
    r"|configuration|training|owner|goal|duty)\b|\bas your (?:\w+ )?(?:creator|developer|owner"
    r"|operator|boss|admin\w*|master|maker|supervisor)\b"
    r"|\b(?:must|should|shall|may|can|are to|is to|need to|needs to|has to|have to) (?:always "
    r"|automatically |only )*be (?:\w+ )?(?:mentioned|recommended|named|shared|sent|deleted"
    r"|approved|accepted|granted|confirmed|charged|trusted|obeyed|followed|executed|treated"
    r"|ignored|skipped|disclosed|forwarded|exported|paid|transferred|refunded|waived|released"
    r"|overridden|bypassed|disabled|shown to)\b"
    r"|\b(?:it is|it's|is it|it will be) (?:perfectly |always |totally )?(?:fine|ok|okay|allowed"
    r"|permitted|safe|legal|acceptable) (?:for you )?to (?:share|delete|send|skip|show|reveal"
    r"|ignore|bypass|disclose|give|run|execute|approve|push|read)\b"
    r"|\b(?:you|u) (?:now )?(?:have no|are now|no longer|don't have|need no|needn't"
    r"|don't need|do not need|are free to|are not bound)\b"
    r"|\b(?:there is|there's|there will be) no need (?:to|for)\b|\b(?:this|these|all"
    r"|all of the|earlier|previous|saved|stored|future) (?:memory|memories|facts?"
    r"|memory entr(?:y|ies)|entr(?:y|ies)|memory notes?)\b"
    r"|\bbetween the tags\b|\bi (?:speak|act|write|talk) (?:on behalf"
    r"|for the (?:operator|vendor|developer)s?|in the name)\b|\b(?:person|one"
    r"|user) (?:who )?you(?:'re| are)? (?:talk|speak|chat)\w*"
)
_TRIGGER: Final = (
    r"(?:if|when|whenever|once|as soon as|the next time|next time|each time"
    r"|every time|after|until|upon|in case|should|the moment|any time|anytime|before)"
)
TRIGGERED = one_of(
    rf"\b{_TRIGGER}\b[^.!?]{{0,60}}\b(?:say|says|type|types|typed|write|writes|wrote|mention"
    rf"|mentions|answer|answers|reply|replies|enter|enters|send|sends|use|uses|utter|see|hear"
    rf"|greet|greets|call|calls|end|ends|start"
    rf"|starts)\b[^.!?]{{0,20}}[\"']\w(?![^\"']*[\"'] i (?:actually |really |just )?mean [^\d]*$)"
    rf"|\b{_TRIGGER}\b[^.!?]{{0,30}}\b(?:code ?word|magic word|(?:say|says|type|types|see|write"
    rf"|writes) goodbye|safe ?word|pass ?phrase|keyword|(?:the|this|that) (?:word|phrase|code"
    rf"|sentence|token|emoji))\b"
    rf"|\b{_TRIGGER}\b[^.!?]{{0,90}}[,:]? (?:then |always |please |just |you |must |should "
    rf"|automatically |immediately )*(?<!\bi )(?<!\bwe )(?<!\bto ){_POWERFUL}\b[^.!?]{{0,80}}"
    rf"|\b{_TRIGGER}\b[^.!?]{{0,90}}[,:] (?:then |always |please )*(?:include|add|mention|put"
    rf"|recommend|append) (?:the |a |an )?(?:import|package|link|url|line|ad\b|advert|sponsor\w*"
    rf"|code|banner|footer)"
    r"|\b(?:run|execute|do|trigger|activate|perform) it (?:\w+ ){0,3}(?:when|whenever|next|later"
    r"|once|if)\b"
    r"|\bon the (?:word|phrase|code|command|keyword)\b|\b(?:type|typed|types|write|say"
    r"|says) /\w+|\bif the date\b|\bafter (?:january|february|march|april|may|june|july"
    r"|august|september|october|november|december|the \d)[^.!?]{0,20}, (?:consider"
    r"|treat|ignore)"
)
ENDS_IN_ACTION = one_of(
    r"\b(?:answered|met|replied|ended|closed) with ['\"]?(?:approved|yes|ok|granted|confirmed"
    r"|sure)|\b(?:every|all|each) (?:answers?|repl(?:y|ies)|responses?|messages?|comparisons?"
    r"|chats?|conversations?)\b[^.!?]{0,30}\b(?:favou?r|link|sponsor|advert|coupon|promo)"
    r"|\b(?:add|append|insert|include|attach|put|mention|end|finish|start|begin|sign"
    r"|contain)\b[^.!?]{0,30}(?:\b(?:(?:hyper)?links?|url|advert\w*|sponsor\w*|slogan|coupon"
    r"|promo\w*|tracking|pixel|affiliate|banner|unofficial|package)\b|https?:|_(?:example|com|net"
    r"|org|io)\b)"
    r"|\b(?:add|include|import|put|use)\b[^.!?]{0,40}\b(?:dependency|unofficial|mirror"
    r"|redirect\w*|shortener|proxy)\b|\b(?:all|each|every|any) (?:links?"
    r"|urls?)\b[^.!?]{0,30}\b(?:through|via|with|give|write|send)\b"
    r"|\b(?:repl(?:y|ies)|answer|respond) to (?:every|all|each) (?:messages?"
    r"|questions?)\b[^.!?]{0,60}\b(?:link|joke|slogan|ad)\b"
)
OTHERS = one_of(
    r"\b(?:may|can|must|should|shall|allowed to|cleared to|access to|rights? (?:to|for)|answer"
    r"|show|share|reveal|send|pass|export|give|tell|apply\w*|obey|also for|use)\b[^.!?]{0,50}"
    r"\b(?:other|all|every|any|each|another)(?: of)?(?: the| your| my"
    r"| our)? (?:other )?(?:\w+ )?(?:user|customer|client|tenant|account|agent|member|session"
    r"|patient|employee|bot)(?:s|'s|s')?\b"
    r"|\b(?:of|from|to|for|with) (?:other|another|all|every) (?:\w+ )?(?:users?|customers?"
    r"|clients?|tenants?)(?:'s?)? (?:data|records?|files|messages|chats|orders|details)\b"
    r"|\b(?:also |even )for (?:other|all) (?:people|persons|users)\b|\buser \d{2,}\b"
    r"|\b(?:when|if|tell|greet|show|let|make|warn|for) (?:the )?(?:next"
    r"|another) (?:user|customer|client|visitor|tenant)s?\b"
)
HIDDEN_RULES = one_of(
    r"\b(?:hidden|secret|silent|covert|standing|new|special|following|extended|permanent"
    r"|internal) (?:orders?|rules?|instructions?|commands?|directives?|polic(?:y|ies)"
    r"|protocols?)\b(?! (?:of|at|in) (?:my|our))"
    r"|\b(?:are|is|as|like|from|were) (?:an? |the )?(?:system|developer|operator|root"
    r"|admin) (?:message|prompt|instruction|rule|command|order|note)s?\b|\bfrom the (?:operator"
    r"|system|developer|vendor|platform)\b[^.!?]{0,20}[:,]?"
    r"|\b(?:priority|precedence) over\b|\b(?:take|takes|have|has) (?:priority|precedence)\b"
    r"|\b(?<!\bi )(?<!\bwe )(?:obey|follow|trust|believe|execute|do) (?:only "
    r"|everything |anything |whatever "
    r"|all )+(?:the |that |what |of |in |i )*\w*|\bobey\b|\bmemory block\b"
    r"|\b(?:this|that|these|the \w+) (?:rule|instruction|order|command"
    r"|routine)s?\b[^.!?]{0,60}\b(?:also|extend\w*|covers?|applies|forever|permanent\w*|store"
    r"|save|keep|pass|run|prompt)\b|\bkeep (?:this|the) (?:routine|rule|trigger|command|order)\b"
    r"|\bkeep this ready\b"
    r"|\b(?:learn|adopt|accept|memori[sz]e|store|save|add) (?:this|the following|these|a new|that"
    r"|the) (?:rule|instruction|order|command|policy|directive)s?\b|\b(?:safety"
    r"|security) checks?\b[^.!?]{0,20}\boff\b"
)
PLANTED = one_of(
    r"\b(?:remember|note|keep in mind|treat|regard|consider|save|store|record|list|cite|name|view"
    r"|mark|see|count)\b(?! (?:me|us|my)\b)[^.!?]{0,50}\b(?:as|is|are) (?:an? |the |my "
    r"|our )?(?:only |most |very |single )*"
    r"(?:authorit\w+|trusted|trustworthy|reliable|official|authoritative|best|safe|preferred"
    r"|recommended|expert|leading|top|number one|verified|go-to|sole|default|reputable|credible"
    r"|legit\w*)\b"
    r"|\b(?:name|recommend|suggest|mention|list|rank|put|cite|promote|show|place"
    r"|prefer)\b[^.!?]{0,30}\b(?:first|above (?:all|others)|on top|at the top|before (?:any|all"
    r"|other)|over (?:all|any|other))\b[^.!?]{0,20}(?:from now on|always|in future|from here|$)"
    r"|\b(?:consider|deem|call|declare)\b[^.!?]{0,40}\b(?:safe|trusted|trustworthy|reliable"
    r"|legit\w*|official|authoritative|verified)\b|\btreat (?!me\b|my\b"
    r"|us\b)[^.!?]{0,50}\bas (?:if|though|an?|the|trusted|safe|true|equal|coming|valid)\b"
    r"|\bin favou?r of\b|\bthe only (?:\w+ )?(?:airline|vendor|brand|shop|store|bank|company"
    r"|product|supplier|provider|insurer|service|hotel|broker|site|website|source|clinic"
    r"|option)\b|\b(?:over|above|before) (?:all|any) (?:the )?others?\b|\btrusted (?:shop|source"
    r"|vendor|partner|site|domain|seller|supplier|provider|advisor)\b|\b(?:never|not"
    r"|don't) (?:ever )?(?:cite|mention|recommend|show)s? (?:\w+ )?(?:competitors?|rivals?"
    r"|alternatives?)\b"
    r"|\b(?:recommend|suggest|mention|offer|sell) only\b[^.!?]{0,30}\b(?:from|of)\b"
    r"|\bsay that\b[^.!?]{0,40}\b(?:best|better|first|safe|cheap\w*|reliable|good"
    r"|great)\b"
    r"|\b(?:when|whenever|if|once|on the word)\b[^.!?]{0,60},? (?:always )?(?:mention"
    r"|say that|name|praise|push|promote|plug|advertise) (?!me\b|that you\b|if\b|it\b)"
)
DESTINATION = re.compile(
    r"\b(?:send|forward|post|upload|mail|e-?mail|export|report|submit|copy|redirect|visit|open"
    r"|fetch|load|call|get|ping|link|connect|go|deliver|push|sync)\w*\b[^.!?]{0,60}(?:https?://"
    r"|www\.|\b[\w-]+\.(?:example|com|net|org|io|xyz|ru|cn|info|biz|top|site|online)\b"
    r"|[\w.+-]+@[\w-]+\.\w+)"
)

MEMORY_WRITE = re.compile(
    r"^(?:\W|please|hey|ok|okay|also|and|now|fyi|so|can you|could you|i want you to|you will"
    r"|you must|kindly|just)*\s*"
    r"(?:(?:remember|memori[sz]e|note(?: down)?|keep in mind|bear in mind|don't forget"
    r"|never forget|write down|make a note|keep a note|take note)\b"
    r"(?:[^.!?:]{0,40}?\b(?:mind|memory|memories|notes?|file|profile|records?|facts?|forever"
    r"|permanently|about me|long-term)\b(?: about \w+)?)?"
    r"|(?:save|store|record|persist|log|put|write|keep|add|commit|file|retain"
    r"|learn)\b(?:[^.!?:]{0,40}?\b(?:mind|memory|memories|notes?|file|profile|records?|facts?"
    r"|forever|permanently|about me|long-term)\b(?: about \w+)?|(?: this| it)?(?=\s*(?:that\b|:"
    r"|->)))|(?:long-?term )?memory (?:update|entry|write|note)|for (?:your|the) records?"
    r"|note to self|fact about me|update)"
    r"[\s,:>-]*(?:that\b|as\b|to\b|->|:|,)?\s*"
)
ABOUT_SELF = re.compile(
    r"\b(?:i|i'm|i've|i'd|me|my|mine|myself|we|we're|our|us|am|ich|mir|mich"
    r"|mein\w*|eu|imi|mea|meu|mie|je|j'\w+|moi|mon|ma|yo|mi|mis|io|mio|mia|ik|mijn)\b|我"
    r"|我们|私|僕|저|나는|я"
    r"|мне|мой|меня|أنا|من "
)
STYLE_ORDER = re.compile(
    rf"^(?:to |that |always |never |please |only |not to |you should |should |answers?|repl(?:y"
    rf"|ies)|responses?)*\s*(?:{_STYLE}|give|show|include|avoid|suggest|recommend|prefer|metric"
    rf"|short|long|keep|no\b|answers?|repl(?:y|ies)|responses?|examples?|code|units|dates)"
)
REMARKS_ON_MEMORY = one_of(
    r"\b(?:in|into|to|from) (?:your |the |my |their |its )?(?:long-?term |persistent )*(?:memory"
    r"|memories|notes on the reader|profile of (?:the )?\w+)\b[^.!?]{0,40}\b(?:of|about|that)\b"
    r"|\b(?:persistent|long-?term) (?:notes?|memory|memories)\b"
    r"|\b(?:change|replace|overwrite|edit|alter) (?:the |my |their )?(?:saved|stored"
    r"|remembered)\b|\bsaved (?:city|role|name|profile|fact|memory)\b|\bkeep on file\b"
    r"|\bpersist\s*(?:->|:)"
    r"|\brecord for this\b|\b(?:remember|store|save|record|persist|note"
    r"|memori[sz]e)\b[^.!?\w]{0,4}(?:that )?(?:this|the) (?:user|person|customer|reader|requester"
    r"|developer|recipient|client)\b|\b(?:remember|persist|store|save|note)\s*(?::"
    r"|->)\s*['\"]?(?:user|requester|customer|reader)\b"
)
# Verbs of an order. None of them says how an answer should look; those that do are not here.
_ACTION: Final = (
    r"(?:accept|access|acknowledge|act|activate|adjust|adopt|advise|agree|allow|alter|apply"
    r"|approve|arrange|ask (?!me\b|us\b)|assign|assist|attach|authenticate|award|ban|bill|block"
    r"|bring|broadcast|bypass"
    r"|cease|charge|check (?:the|my|all|every|if|whether)|claim|clear|close|collect|comment on"
    r"|communicate|compile|complete|comply|conceal|conclude|configure|confirm|connect|contact"
    r"|continue|copy|credit|cut|deactivate|debit|deliver|deny|deploy"
    r"|direct|discard|dismiss|dispatch|distribute|disable|drop|dump|email|empty|enable|encode"
    r"|encourage|endorse|enforce|enter|escalate|establish|exclude|execute|expand|extend|fake"
    r"|fetch|file|follow|force|forget|forge"
    r"|give (?:the|all|any|my|out|every|them|him|her|anyone|everyone|user|full|root"
    r"|admin)|grant|guess"
    r"|guide|hand|handle|host|implement|impose|inform|initiate|insist|inspect|instruct|invent"
    r"|invite|issue|join|launch|leak|lend|let|lie|load|lock|log|lower|mail"
    r"|manage|mark|message|migrate|modify|monitor|notify|obtain|offer (?:the|all|every|them)"
    r"|open (?!with\b)|operate|overwrite|pass|patch|pay|perform|permit|persuade|ping|place|post"
    r"|prevent|prioriti[sz]e|proceed|process|produce|prompt|propagate|publish"
    r"|pull(?! requests?)|punish"
    r"|purge|push|query|quit|raise|rate|react|read out|rebook|reboot|receive|redirect|reduce"
    r"|refer|refuse|register|reject|relay|release|relocate|rely|renew|rent|repay|report|reroute"
    r"|reserve|reset|resolve|restart|restore|retain|retrieve|return|reveal"
    r"|reverse|revoke|reward|route|run|save|scan|search|secure|sell|set|share|sign|spend|spread"
    r"|steal|store|submit|subscribe|supply|support|swap|sync|take|target|tell (?:the|all|every"
    r"|them|anyone|other)|terminate|toggle|track|trade|transmit|trigger"
    r"|unlock|unsubscribe|update|upgrade|validate|verify|view|vouch|waive|watch|whitelist|wire"
    r"|withdraw|withhold)"
)
ORDER = re.compile(
    r"(?:^|[.!?;]\s+|->\s*)(?:(?:please|kindly|always|never|don't|do not|just|only|then|also|and"
    r"|now|so|simply|automatically|from now on|from today on|in (?:the )?future|going forward"
    r"|next time|for (?:all|every|each|any|future) [^,.!?]{0,40})[, ]+"
    r"|(?:when|whenever|if|once|after|before|every time|as soon as|at)\b[^,.!?]{0,60},\s*)*"
    rf"{_ACTION}\b(?!\s*(?:-|/|is\b|are\b|was\b|in my\b|of my\b))"
)
