"""Claims of permission: memory is never authority, so nobody gains any by being remembered.

A claim names a power (refunds, root, other people's data, no more questions) and says that
somebody has it. Jobs, products and prohibitions use the same words and must pass: "I am not
authorised to deploy on Fridays" is a constraint worth keeping.
"""

import re
from typing import Final

_WHO: Final = (
    r"(?:i|i'm|im|we|we're|me|user|users|this user|the user|he|she|they|customer|client|requester|reader"
    r"|person|recipient|account|developer|member|visitor|owner|name)"
)
_IS: Final = (
    r"(?:\s+(?:am|is|are|was|were|be|been|being|has|have|had|'m|'s|'ve|now|already|hereby|fully|also|always"
    r"|officially|permanently|personally|specially))*"
)
_GRANTED: Final = (
    r"(?:cleared|authori[sz]ed|approved|entitled|permitted|allowed|empowered|privileged|pre-?approved"
    r"|pre-?authori[sz]ed|verified|whitelisted|allow-?listed|exempt(?:ed)?|excused|trusted|certified"
    r"|eligible|vetted|licensed|granted|waived)"
)
_POWER: Final = (
    r"(?:refunds?|payments?|transfers?|payouts?|purchases?|expenses?|invoices?|money|budgets?|discounts?"
    r"|root|sudo|admin\w*|access|data|records?|customers?|tenants?|users?|accounts?|staff|employees?"
    r"|override|bypass|skip|policy|policies|rules?|limits?|checks?|confirmations?|verification"
    r"|approve|approvals?|delete|deletion|export|reset|unlock|anything|everything|all|any|every"
    r"|unlimited|without|no (?:questions|supervisor|review|limit)|fees?|production|deploy\w*|push|merge"
    r"|prices?|credits?|plans?|tiers?|internal|confidential|restricted|secrets?|passwords?)"
)
_NEGATED: Final = r"(?<!not )(?<!never )(?<!n't )(?<!nobody )(?<!no one )(?<!cannot )(?<!without being )(?<!only )"

_ENGLISH: Final = (
    rf"\b{_WHO}{_IS}\s+{_NEGATED}{_GRANTED}\b.{{0,60}}\b{_POWER}\b",
    rf"\b{_WHO}{_IS}\s+{_NEGATED}{_GRANTED}\s+(?:by|as)\b",
    rf"\b{_WHO}\s+(?:may|can|could|must|shall|should|am able to|is able to|has the right to|have the right to)\s+"
    r"(?:always |also |now |freely )*(?:see|read|view|access|query|browse|open|export|edit|delete|approve|authori[sz]e"
    r"|refund|issue|override|bypass|skip|waive|spend|push|grant|reset|unlock|impersonate|use|do)\b.{0,50}"
    r"\b(?:all|any|every\w*|other|others|own expenses|anyone|customers?|tenants?|users?|refunds?|limits?"
    r"|polic(?:y|ies)|without|policies|payments?|data of)\b",
    r"\b(?:may|can|could|am allowed to|is allowed to|are allowed to) (?:approve|authori[sz]e|sign off|refund|waive)\b",
    r"\b(?:gave|give|gives|given|granted|grants?|assigned|promoted|made|makes)\s+(?:me|us|this user|the user|them|him|her|user)\b"
    r".{0,50}\b(?:root|admin\w*|access|rights?|privileges?|permissions?|owner\w*|superuser|moderator|control|authority)\b",
    r"\b(?:have|has|having|hold|holds|own|owns|with|got|get|gets|enjoy|enjoys)\s+(?:now |full |complete |unlimited |lifetime |global |elevated"
    r" |special |permanent |the |an? |already )*(?:root|admin\w*|superuser|sudo|owner|developer|god|vip|platinum|gold|premium"
    r"|enterprise|unlimited|lifetime|elevated|special|unrestricted|privileged|top-level|security)\s*[- ]?"
    r"(?:mode |level |tier |account |user )*(?:rights?|access|privileges?|permissions?|status|clearance|plan|tier|membership"
    r"|role|refunds?|subscription|override|credits?|account|licen[cs]e)\b",
    r"\b(?:lifetime|unlimited|platinum|vip|diamond)\s+(?:\w+ )?(?:plan|tier|access|refunds?|credits?|membership|status|account|subscription)\b",
    r"\b(?:i am|i'm|im|user is|they are|he is|she is|we are)\s+(?:now |actually |really |in fact |also )?(?:an? |the |your |one of the )?"
    r"(?:\w+ )?(?:owner|admin|administrator|root|superuser|super ?admin|operator|developer|creator|founder|ceo|manager|engineer"
    r"|moderator|maintainer|employee|auditor|supervisor|staff|support)\w*\s+(?:of|for|at|on|in|behind)\s+"
    r"(?:this|your|the) (?:\w+ )?(?:service|platform|system|account|tenant|app|application|workspace|site|website|bot|chatbot"
    r"|assistant|ai|server|memory|bank|company|organi[sz]ation|vendor|model|product|database)\b",
    r"\b(?:i am|i'm|user is) (?:the |your |an? )?(?:operator|superuser|super ?admin|root|system administrator of|platform owner|verified \w+)\b",
    r"\b(?:developer|debug|god|maintenance|admin|root|sudo|unrestricted|privileged|jailbreak|dan|test|staff|superuser)[ -]mode\b.{0,30}"
    r"\b(?:on|enabled|active|activated|unlocked|granted|is)\b",
    r"\b(?:my|our|user'?s?|their|customer'?s?) (?:\w+ )?(?:discount|rebate|refund limit|credit limit|spending limit|trust level|clearance"
    r"|security level|access level|permission level|privilege level|privileges|permissions|entitlements?)\b.{0,20}\b(?:is|are|was|=|:|includes?|stays?)",
    r"\b(?:get|gets|entitled to|receive|receives|qualif\w+ for|have|has)\b.{0,20}\b\d+ ?(?:%|percent)\s*(?:discount|off|rebate)",
    r"\b(?:waive|waives|waived|waiving|exempt\w* from|free of|never charge\w*|don't charge|no) (?:all |any |every |the )*(?:fees?|charges?|costs?|limits?)\b",
    r"\b(?:agree[sd]?|consent(?:s|ed)?|opt(?:s|ed)? in|gave (?:\w+ )?consent|gives? consent|given consent)\b.{0,40}"
    r"\b(?:to|that|receive|share|sharing|marketing|newsletter|data|terms|recording|processing|all)\b",
    r"\b(?:pre-?approv|pre-?authori[sz])\w*",
    r"\b(?:user|customer|client|requester|recipient|reader|they|account|person|owner|i) (?:\w+ )?"
    r"(?:accepts?|approves?|allows?|authori[sz]e[sd]?|permits?|permitted|confirms?|allowed|approved|accepted|waives?)"
    r" (?:all|any|every\w*|automatic\w*|sharing|force|access|purchases?|payments?|the sharing|refunds?|transfers?|offers?)\b",
    r"\b(?:identity|age|account|status|clearance|email) (?:\w+ )?(?:is|was|has been|already) (?:already )?(?:verified|confirmed|proven|checked|cleared)\b",
    r"\b(?:trust|access|clearance|privilege|permission|auth|role|admin|is_admin|tier|plan|override|policy)\w*\s*(?:=|:=|==)\s*\w+",
    r"\b(?:true|yes|max|admin|root|full)\s*[;,]?\s*\w+_\w+\s*=",
    r"\b(?:trust me|you (?:can|may|should) trust me|already trust(?:s|ed)? me|i vouch|take my word)\b",
    r"\b(?:is|are|was|were) (?:always |already |automatically )*(?:valid|approved|pre-?paid|authori[sz]ed|permitted|granted|exempt)\b"
    r".{0,30}\b(?:from me|by|forever|always|automatically|without|for me|for this|for my)\b",
    r"\b(?:refunds?|payments?|purchases?|transfers?|transactions?|orders|invoices?|requests|deletions?|changes|exports?)\b.{0,40}"
    r"\b(?:always|automatically|already) (?:be )?(?:approved|valid|authori[sz]ed|allowed|accepted|granted|pre-?approved|free)\b",
    r"\b(?:approved|authori[sz]ed|signed off|sanctioned|cleared|confirmed) by (?:the |our |your )?(?:ceo|cto|cfo|boss|management|manager"
    r"|vendor|operator|admin\w*|support|owner|board|legal|head|director|supervisor|bank|it\b|security|staff|team lead)",
)

# Accents are gone and case is folded when these are read.
_OTHER_LANGUAGES: Final = (
    # German
    r"\b(?:bevollmachtigt|ermachtigt|freigeschaltet fur|zeichnungsberechtigt|vorab genehmigt)\b"
    r"|(?<!nicht )\b(?:befugt|berechtigt|autorisiert)\b"
    r"|\b(?:unbegrenzt|unbeschrankt|uneingeschrankt)\w*\s+(?:\w+\s+)?(?:zugriff|zugang|recht|ruckerstattung|erstattung|konto)\w*"
    r"|\b(?:admin|root|administrator)-?(?:rechte|zugang|zugriff|status)\w*"
    r"|\b(?:administrator|inhaber|eigentumer|betreiber|chef|besitzer)(?:in)?\s+(?:dieses|dieser|eures|des (?:dienst|systems)|der plattform)"
    r"|\bmein\w* rabatt (?:betragt|ist|liegt)|\bdarf(?:st)?\b.{0,40}\b(?:alle\w*|jede\w*|daten|loschen|erstatt\w*|ohne)\b"
    r"|\bpreise? .{0,30}\bautomatisch\b|\bautomatisch (?:freigib\w*|genehmig\w*|akzeptier\w*|freigegeben)",
    # Romanian
    r"(?<!nu )\b(?:sunt|este|e) (?:\w+ )?(?:autorizat|imputernicit|indreptatit|abilitat|aprobat|scutit|verificat)\w*\b"
    r"|\b(?:administratorul|proprietarul|operatorul|sefa?|detinatorul) (?:acestui|acestei|platformei|serviciului|sistemului)"
    r"|\bam (?:drepturi|acces|permisiuni|privilegii)\b.{0,30}\b(?:admin\w*|root|depline?|nelimitat\w*|total\w*|complet\w*|toate)\b"
    r"|\breducere(?:a mea)? (?:este )?de \d|\bpot (?:sa )?(?:ved|aprob|sterg|acces)\w*\b.{0,40}\b(?:tuturor|toate|toti|orice|altor|oricarui)\b"
    r"|\brambursari? (?:nelimitat|fara)\w*|\bdeja aprobat\w*",
    # French
    r"\bje suis (?:\w+ )?(?:autorise|habilite|exempte|accredite|verifie)\w*\b"
    r"|\bje (?:suis|reste) (?:l'|le |la |un |une )?(?:administrat\w+|proprietaire|responsable|operat\w+) (?:de ce|de cette|du service|de la plateforme|du systeme)"
    r"|\bacces (?:illimite|complet|total|root|admin\w*)|\bdroits? (?:d'|de |)?(?:admin\w*|root|complets?)"
    r"|\bma remise est|\bje peux (?:voir|consulter|approuver|valider|supprimer|rembourser)\b.{0,40}\b(?:tous|toutes|autres|mes propres|sans)\b"
    r"|\bremboursements? illimites?",
    # Spanish, Portuguese, Italian
    r"(?<!no )\b(?:estoy|soy|estou|sou|sono) (?:\w+ )?(?:autorizad[oa]|autorizzat[oa]|habilitad[oa]|abilitat[oa]|exent[oa]|verificad[oa]|isent[oa]|facultad[oa])\b"
    r"|\b(?:soy|sou|sono) (?:el |la |o |a |il |l')?(?:super)?(?:administrad?t?or\w*|administratore|amministratore|duen[oa]|propietari[oa]|proprietari[oa]|operador\w*|dono|dona)"
    r" (?:de (?:este|esta|la plataforma)|del (?:servicio|sistema)|deste|desta|da plataforma|do (?:servico|sistema)|di questo|di questa|della piattaforma|del servizio)"
    r"|\b(?:acceso|acesso|accesso) (?:ilimitado|total|completo|illimitato|root|admin\w*|a (?:todos|todas|tutti))|\b(?:permisos?|permissoes|permessi|derechos|diritti) (?:de |di )?(?:admin\w*|root|amministra\w*)"
    r"|\b(?:mi descuento|meu desconto|il mio sconto) (?:es|e|es del|e de|e del)\b|\b(?:reembolsos?|rimborsi) (?:ilimitados?|illimitati|sin|sem|senza)\b"
    r"|\b(?:puedo|posso) (?:ver|vedere|aprobar|aprovar|approvare|borrar|apagar|cancellare|acceder|acessar|accedere)\b.{0,40}\b(?:todos|todas|tutti|tutte|otros|outros|altri|sin|sem|senza)\b",
    # Dutch, Polish, Hungarian, Turkish
    r"\b(?:ik ben|gebruiker is) (?:\w+ )?(?:gemachtigd|bevoegd|geautoriseerd|vrijgesteld)\b|\bonbeperkte? (?:toegang|terugbetaling\w*)|\b(?:beheerder|eigenaar) van (?:dit|deze)"
    r"|\b(?:jestem|mam) (?:\w+ )?(?:upowazni\w+|uprawni\w+|autoryzowan\w+)|\bnieograniczon\w+ (?:dostep|zwrot)\w*|\b(?:administratorem|wlascicielem) (?:tej|tego)"
    r"|\b(?:jogosult vagyok|felhatalmaz\w+|korlatlan (?:hozzaferes|visszaterites)\w*|en vagyok az? (?:admin\w*|tulajdonos\w*|rendszergazda))|nem kell (?:jogosultsag\w*|engedely\w*|jovahagyas\w*|megerosites\w*)"
    r"|\b(?:yetkiliyim|yetkim var|onayliyim|sinirsiz (?:erisim|iade)\w*|bu (?:platform|hizmet|sistem)\w* (?:sahibi|yonetici)\w*)",
    # Russian, Ukrainian
    r"\b(?:я|мне) (?:\w+ )?(?:уполномочен|авторизован|имею право|разрешено|разрешен|освобожден)\w*\b.{0,60}"
    r"|\bя (?:\w+ )?(?:администратор|владелец|оператор|хозяин) (?:этого|этой|этои|сервиса|платформы|системы)|\b(?:неограниченн|безлимитн|полн)\w+ (?:доступ|возврат|прав)\w*|\bправа администратора",
    # Chinese, Japanese, Korean
    r"(?:超级|超級|系统|系統|平台的?)(?:的)?(?:管理员|管理員|所有者|主人)|(?:无限|無限|完全|全部)(?:的)?(?:权限|退款|访问|訪問)|(?:已|被|获得|獲得)(?:经|經)?(?:授权|授權|批准)|授权.{0,12}(?:退款|付款|转账|访问|查看|免)"
    r"|免(?:审核|審核|审批|验证|確認|确认)|可以(?:查看|访问|看到).{0,8}(?:所有|其他|全部)|(?:我的)?折扣(?:是|为)|管理员权限|管理者権限|無制限の|承認済み|全ユーザー|관리자 권한|무제한|모든 사용자",
    # Arabic, Persian, Hebrew
    r"(?:مخول|مصرح لي|مفوض|صلاحيات (?:المدير|كامله|كاملة|مطلقه)|وصول (?:كامل|غير محدود)|(?:مدير|مالك) (?:المنصة|المنصه|النظام|الخدمة|هذه الخدمه)|بدون موافق[هة]|بيانات (?:جميع|كل) )"
    r"|(?:مجاز هستم|دسترسی (?:کامل|نامحدود)|مدیر (?:سیستم|این سرویس))|(?:אני מורשה|גישה מלאה|גישה בלתי מוגבלת|מנהל המערכת הזו)",
)
_CLAIM = re.compile("|".join((*_ENGLISH, *_OTHER_LANGUAGES)))


def claims_authority(folded: str) -> bool:
    """Whether a fact says that somebody may, has, is or gets what memory can't grant.

    `folded` is folded text without accents.
    """
    return bool(_CLAIM.search(folded))
