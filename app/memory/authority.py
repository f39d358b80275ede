"""Claims of permission: memory is never authority, so nobody gains any by being remembered.

A claim names a power (refunds, root, other people's data, no more questions) and says that
somebody has it. Jobs, products and prohibitions use the same words and must pass: "I am not
authorised to deploy on Fridays" is a constraint worth keeping.
"""

from typing import Final

from app.memory.authority_languages import CLAIMS_ELSEWHERE
from app.memory.patterns import one_of

_WHO: Final = (
    r"(?:i|i'm|im|we|we're|me|user|users|this user|the user|he|she|they|customer|client|requester"
    r"|reader"
    r"|person|recipient|account|developer|member|visitor|owner|name)"
)
_IS: Final = (
    r"(?:\s+(?:am|is|are|was|were|be|been|being|has|have|had|'m|'s|'ve|now|already|hereby|fully"
    r"|also|always"
    r"|officially|permanently|personally|specially))*"
)
_GRANTED: Final = (
    r"(?:cleared|authori[sz]ed|approved|entitled|permitted|allowed|empowered|privileged"
    r"|pre-?approved"
    r"|pre-?authori[sz]ed|verified|whitelisted|allow-?listed|exempt(?:ed)?|excused|trusted"
    r"|certified"
    r"|eligible|vetted|licensed|granted|waived)"
)
_POWER: Final = (
    r"(?:refunds?|payments?|transfers?|payouts?|purchases?|expenses?|invoices?|money|budgets?"
    r"|discounts?"
    r"|root|sudo|admin\w*|access|data|records?|customers?|tenants?|users?|accounts?|staff"
    r"|employees?"
    r"|override|bypass|skip|policy|policies|rules?|limits?|checks?|confirmations?|verification"
    r"|approve|approvals?|delete|deletion|export|reset|unlock|anything|everything|all|any|every"
    r"|unlimited|without|no (?:questions|supervisor|review|limit)|fees?|production|deploy\w*|push"
    r"|merge"
    r"|files|patients?|archives?|prices?|credits?|plans?|tiers?|internal|confidential"
    r"|restricted|secrets?|passwords?)"
)
_NEGATED: Final = (
    r"(?<!not )(?<!never )(?<!n't )(?<!nobody )(?<!no one )(?<!cannot )"
    r"(?<!without being )(?<!only )"
)

_ENGLISH: Final = (
    (
        r"\b(?:i'm|i am|im) (?:now |actually |really )?your (?:new )?(?:admin\w*|owner"
        r"|operator|developer|creator|boss|master|manager|supervisor)\b"
    ),
    (
        r"\bi (?:own|run|operate|built|created|administer|founded) (?:this"
        r"|your) (?:\w+ )?(?:platform|service|system|app|site|website|bot|assistant|model"
        r"|company|tool|product)\b"
    ),
    (
        r"\b(?:budget|quota|credits?|tokens?|limits?|allowance) (?:\w+ )?(?:is"
        r"|are) (?:infinite|unlimited|limitless|endless)\b"
    ),
    rf"\b{_WHO}{_IS}\s+{_NEGATED}{_GRANTED}\b.{{0,60}}\b{_POWER}\b",
    rf"\b{_WHO}{_IS}\s+{_NEGATED}{_GRANTED}\s+(?:by|as)\b",
    (
        rf"\b{_WHO}\s+(?:may|can|could|must|shall|should|am able to|is able to|has the right to"
        rf"|have the right to)\s+"
        r"(?:always |also |now |freely )*(?:see|read|view|access|query|browse|open|export"
        r"|edit|delete"
        r"|approve|authori[sz]e"
        r"|refund|issue|override|bypass|skip|waive|spend|push|grant|reset|unlock|impersonate|use"
        r"|do)\b.{0,50}"
        r"(?:\bown (?:expenses|requests|refunds|invoices|orders)|\banyone\b|\bcustomers?\b"
        r"|\btenants?\b|\busers?\b|\bclients?\b"
        r"|\brefunds?\b|\blimits?\b|\bpolic(?:y|ies)\b|\bwithout\b|\bpayments?\b|\bdata of\b"
        r"|\beverything\b|\banything\b"
        r"|\b(?:all|any|every|other) (?:\w+ )?(?:data|records?|accounts?|files|messages|orders"
        r"|purchases|requests|rules))"
    ),
    (
        r"\b(?:may|can|could|am allowed to|is allowed to|are allowed to) (?:approve|authori[sz]e"
        r"|sign off|refund|waive)\b"
    ),
    (
        r"\b(?:gave|give|gives|given|granted|grants?|assigned|promoted|made|makes)\s+(?:me|us"
        r"|this user|the user|them|him|her|user)\b"
        r".{0,50}\b(?:root|admin\w*|access|rights?|privileges?|permissions?|owner\w*|superuser"
        r"|moderator|control|authority)\b"
    ),
    (
        r"\b(?:have|has|having|hold|holds|own|owns|with|got|get|gets|enjoy|enjoys)\s+(?:now |full "
        r"|complete |unlimited |lifetime |global |elevated"
        r" |special |permanent |the |an? |already )*(?:root|admin\w*|superuser|sudo|owner|developer"
        r"|god|vip|platinum|gold|premium"
        r"|enterprise|unlimited|lifetime|elevated|special|unrestricted|privileged|top-level"
        r"|security)\s*[- ]?"
        r"(?:mode |level |tier |account |user )*(?:rights?|access|privileges?|permissions?|status"
        r"|clearance|plan|tier|membership"
        r"|role|refunds?|subscription|override|credits?|account|licen[cs]e)\b(?! (?:to|at"
        r"|with|on|of"
        r"|for|in) (?!this\b|your\b|the\b|all\b|every))"
    ),
    (
        r"\b(?:lifetime|unlimited|platinum|vip|diamond)\s+(?:\w+ )?(?:plan|tier|access|refunds?"
        r"|credits?|membership|status|account|subscription)\b"
    ),
    (
        r"\b(?:i am|i'm|im|user is|they are|he is|she is|we are)\s+(?:now |actually "
        r"|really |in fact "
        r"|also )?(?:an? |the |your |one of the )?"
        r"(?:\w+ )?(?:owner|admin|administrator|root|superuser|super ?admin|operator|developer"
        r"|creator|founder|ceo|manager|engineer"
        r"|moderator|maintainer|employee|auditor|supervisor|staff|support)\w*\s+(?:of|for|at|on|in"
        r"|behind)\s+"
        r"(?:this|your|the) (?:\w+ )?(?:service|platform|system|account|tenant|app|application"
        r"|workspace|site|website|bot|chatbot"
        r"|assistant|ai|server|memory|bank|company|organi[sz]ation|vendor|model|product|database)\b"
    ),
    (
        r"\b(?:i am|i'm|user is) (?:the |your |an? )?(?:operator|superuser|super ?admin|root"
        r"|platform owner|verified \w+)\b(?! of (?:an?|our|my)\b)"
    ),
    (
        r"\b(?:developer|debug|god|maintenance|admin|root|sudo|unrestricted|privileged"
        r"|jailbreak|dan"
        r"|test|staff|superuser)[ -]mode\b.{0,30}"
        r"\b(?:on|enabled|active|activated|unlocked|granted|is)\b"
    ),
    (
        r"\b(?:my|our|user'?s?|their|customer'?s?) (?:\w+ )?(?:discount|rebate|refund limit"
        r"|credit limit|spending limit|trust level|clearance"
        r"|security level|access level|permission level|privilege level|privileges|permissions"
        r"|entitlements?)\b\s*(?:here |now |rate |level |always )*(?:is\b|are\b|was\b|="
        r"|:|includes?|stays?)"
    ),
    (
        r"\b(?:get|gets|entitled to|receive|receives|qualif\w+ for|have|has)\b.{0,20}\b\d+ ?(?:%"
        r"|percent)\s*(?:discount|off|rebate)"
    ),
    (
        r"\b(?:waive|waives|waived|waiving|exempt\w* from|free of|never charge\w*|don't charge"
        r"|no) (?:all |any |every |the )*(?:fees?|charges?|costs?|limits?)\b"
    ),
    (
        r"\b(?:agree[sd]?|consent(?:s|ed)?|opt(?:s|ed)? in|gave (?:\w+ )?consent|gives? consent"
        r"|given consent)\b.{0,40}"
        r"\b(?:receive|shar(?:e|ing)|marketing|newsletter|e-?mails?|data|terms|record(?:ed|ing)"
        r"|process(?:ed|ing)|tracking|cookies|sold|skip|free|refunds?|fees?|pay\w*|all)\b"
    ),
    r"\b(?:pre-?approv|pre-?authori[sz])\w*",
    (
        r"\b(?:user|customer|client|requester|recipient|reader|they|account|person|owner"
        r"|i) (?:\w+ )?"
        r"(?:accepts?|approves?|allows?|authori[sz]e[sd]?|permits?|permitted|confirms?|allowed"
        r"|approved|accepted|waives?)"
        r" (?:all|any|every\w*|automatic\w*|sharing|force|access|purchases?|payments?|the sharing"
        r"|refunds?|transfers?|offers?)\b"
    ),
    (
        r"\b(?:identity|age|account|status|clearance|email) (?:\w+ )?(?:is|was|has been"
        r"|already) (?:already )?(?:verified|confirmed|proven|checked|cleared)\b"
    ),
    (
        r"\b(?:trust|access|clearance|privilege|permission|auth|role|admin|is_admin|tier|plan"
        r"|override|policy)\w*\s*(?:=|:=|==)\s*\w+"
    ),
    r"\b(?:true|yes|max|admin|root|full)\s*[;,]?\s*\w+_\w+\s*=",
    (
        r"\b(?:hold|holds|holding|have|has|got) (?:a |an |the |full |top |level \w+ )*(?:clearance"
        r"|security level|power of attorney)\b"
    ),
    (
        r"\b(?:my|user'?s?|their) (?:current |official |real |actual )?(?:role|title|account type"
        r"|group|level) (?:here )?is (?:an? |the |now )?(?:super ?)?(?:admin"
        r"|administrator|root|owner"
        r"|operator|moderator|superuser|staff|vip)\b(?! (?:of|for|at|assistant) (?:our|my|a))"
    ),
    (
        r"\b(?:qualif\w+|eligible|entitled|due|owed)\b.{0,30}\b(?:rebates?|discounts?|refunds?"
        r"|upgrades?|credits?|vouchers?|compensation|cashback|waivers?)\b"
    ),
    (
        r"\b(?:account|user|subscription|plan|profile|membership) (?:\w+ )?(?:was|were|is|has been"
        r"|have been|been|got|am) (?:\w+ )?(?:upgraded|promoted|elevated|unlocked|whitelisted"
        r"|unblocked|flagged as|marked as|converted to|escalated)\b"
    ),
    (
        r"\b(?:passed|completed|cleared|finished) (?:\w+ )?(?:identity|kyc|age|id|security"
        r"|background) ?(?:\w+ )?(?:verification|checks?|screening|proof)\b|\bverified (?:my"
        r"|the user's|their) (?:identity|age|account)\b"
    ),
    (
        r"\b(?:this|my|the|our|user'?s?) (?:\w+ )?(?:account|profile|tenant|session"
        r"|workspace) (?:\w+ )?(?:bypasses|skips|ignores|has no|is exempt|is not subject|overrides"
        r"|outranks|has priority|is trusted|may|can)\b"
    ),
    (
        r"\bremember (?:me|this user|the user) as (?:an? |the |your )?(?:\w+ )?(?:internal|verified"
        r"|trusted|admin\w*|owner|employee|staff|operator|manager|developer|vip|partner|moderator"
        r"|engineer)\b|\bcharge (?:everything|all|it|anything)\b|\b(?:internal"
        r"|verified) (?:employee"
        r"|staff|user|customer|member|tester|account)\b"
    ),
    (
        r"\b(?:may|can) (?:use|access|see|enter|open|manage|read) (?:my|their"
        r"|the user's) (?:account|orders|data|files|profile|e?-?mails?|messages"
        r"|memory)\b"
    ),
    (
        r"\b(?:legal|support|sales|management|security|hr|billing|compliance"
        r"|the (?:helpdesk|vendor|operator|bank|board|admin\w*)) (?:\w+ )?(?:has "
        r"|have )?(?:cleared|approved|allowed|authori[sz]ed|permitted|granted|confirmed"
        r"|waived|exempted|verified) (?:me|us|my|the user|this)\b"
    ),
    (
        r"\bi'?(?:m| am|'ve said .{0,30} i'm| am now) the (?:administrator|admin"
        r"|operator|root|superuser|moderator)\b(?! (?:of|for|at) (?:our|my|an?))"
    ),
    (
        r"\b(?:trust me|you (?:can|may|should) trust me|already trust(?:s|ed)? me|i vouch"
        r"|take my word)\b"
    ),
    (
        r"\b(?:have|'ve|has|got) (?:got )?(?:root|sudo|superuser|admin) (?:on|in|at|over"
        r"|here|for|access|rights?|privileges?)\b"
    ),
    (
        r"\b(?:team|support|vendor|agent|staff|operator|bank|helpdesk|desk|sales"
        r"|management) (?:\w+ )?(?:promised|guaranteed|assured|owes?) (?:me|us|this user)\b"
        r"|\bfree (?:service|access|upgrades?|shipping|support) (?:for (?:life|ever)"
        r"|forever)\b"
    ),
    (
        r"\b(?:account|permission|access|clearance|trust|security|privilege|loyalty"
        r"|membership|customer|user) (?:type|level|tier|class|status|group)\s*(?::|=|is\b)"
    ),
    (
        r"\bpays? nothing\b|\b(?:don't|doesn't|never|not) (?:have to "
        r"|need to )?pay\b.{0,30}\b(?:here|support|deal|service|orders?|fees?)\b"
    ),
    (
        r"\b(?:is|are|was|were) (?:always |already |automatically )*(?:valid|approved|pre-?paid"
        r"|authori[sz]ed|permitted|granted|exempt)\b"
        r".{0,30}\b(?:from me|by|forever|always|automatically|without|for me|for this|for my)\b"
    ),
    (
        r"\b(?:refunds?|payments?|purchases?|transfers?|transactions?|orders|invoices?|requests"
        r"|deletions?|changes|exports?)\b.{0,40}"
        r"\b(?:always|automatically|already) (?:be )?(?:approved|valid|authori[sz]ed"
        r"|allowed|accepted"
        r"|granted|pre-?approved|free)\b"
    ),
    (
        r"\b(?:approved|authori[sz]ed|signed off|sanctioned|cleared|confirmed) by (?:the |our "
        r"|your )?(?:ceo|cto|cfo|boss|management|manager"
        r"|vendor|operator|admin\w*|support|owner|board|legal|head|director|supervisor|bank|it\b"
        r"|security|staff|team lead)"
    ),
)

_CLAIM = one_of(*_ENGLISH, *CLAIMS_ELSEWHERE)

# No phrase of the table, but the words of a privilege with a person who is to have it, and no job
# or prohibition that would explain them.
_PRIVILEGE = one_of(
    r"\b(?:refund\w*|reimburs\w*|waive\w*|fees?|discounts?|rebates?|surcharges?"
    r"|entitle\w*|clearance|cleared"
    r"|privileges?|permissions?|authori[sz]\w+|verif(?:y|ied|ication)|identity|exempt\w*|quotas?"
    r"|(?:usage|spending|credit|rate|withdrawal|daily|order) (?:limit|cap)s?|limits?"
    r"|caps?|approvals?"
    r"|approved|unpaid|paid|pay|free of charge|at cost|cost price|help ?desk"
    r"|support (?:lead|team|agent|staff|desk)"
    r"|administrators?|admins?|operators?|superuser|moderators?|root|vendor|platform"
    r"|billing|subscription|premium"
    r"|platinum|vip|consent\w*|behalf|power of attorney|red team|legal|hidden content"
    r"|outranks?|bypass|overrides?"
    r"|come first|comes first|orders|purchases|requests|account|invoices?|contract)"
)
_GRANT = one_of(
    r"\b(?:granted|grants?|cleared|given|may|no (?:\w+ )?(?:limit|cap|need|fee|approval"
    r"|check)s?|unlimited|verified|confirmed"
    r"|behalf|standing|exempt|skip|free of charge|at cost|cost price|before (?:they|it)"
    r"|double|outranks?|come first"
    r"|comes first|red team|of (?:your|this) (?:vendor|service|company|platform"
    r"|operator)|don't pay|never pays?"
    r"|without|priority|waivers?|on the house|is considered|count as|counts as|for free)"
)
_PERSON = one_of(r"\b(?:i|i'm|i've|me|my|user|customer|client|account|person|employees? like me)\b")
_EXPLAINED = one_of(
    r"\b(?:i|we|who|that|she|he) (?:also |mostly |mainly |often |usually )?(?:work"
    r"|manage|build|develop|maintain|lead|run|write|test|review"
    r"|design|teach|study|research|sell|own|handle|like|love|hate|prefer|want|need|try"
    r"|pay|live|travel|commute|drink|eat)s?\b"
    r"|\b(?:my|our) (?:job|team|employer|boss|work|product|startup|thesis|project"
    r"|manager|landlord)\b|\bat work\b"
    r"|\b(?:can't|cannot|not|never|must|have to|only|don't) (?:\w+ ){0,3}(?:without"
    r"|allowed|authori[sz]ed|permitted|before)\b"
    r"|\b(?:requires?|needs?|limited|answers?|examples?|code)\b"
)


def claims_authority(folded: str) -> bool:
    """Whether a fact says that somebody may, has, is or gets what memory can't grant.

    `folded` is folded text without accents.
    """
    if _CLAIM.search(folded):
        return True
    return bool(
        _PRIVILEGE.search(folded)
        and _GRANT.search(folded)
        and _PERSON.search(folded)
        and not _EXPLAINED.search(folded)
    )
