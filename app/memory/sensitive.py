"""Special categories of personal data, which a tenant must allow before they are remembered.

A statement about a person is meant, not a subject: "I build a prayer times app" and "I teach
oncology" are jobs. Where a word alone can't tell, a job, product or study beside it lets it pass.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from app.memory import sensitive_patterns as phrases
from app.memory.patterns import one_of

_TABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "third_party_health": (phrases.THIRD_HEALTH,),
    "minors": (phrases.MINORS,),
    "health": (
        phrases.HEALTH_EN,
        (
            r"\b(?:ich (?:habe|leide|bin|nehme|hatte)|seit|wegen|mit)\b.{0,40}\b(?:krebs|diabet\w*"
            r"|asthma|epileps\w*|depress\w*|migrane|angststorung|burn-?out|adhs|autis\w*|hiv|aids"
            r"|rheuma|bluthochdruck|herz(?:infarkt|krank\w*|fehler)|schlaganfall"
            r"|borreliose|schwanger"
            r"|behindert|schwerbehindert|querschnittsgelahmt|magersucht|sucht|alkoholiker\w*"
            r"|antidepressiva|insulin|tabletten gegen|chemotherapie|multiple sklerose|zoliakie"
            r"|allergi\w+ gegen)\b|\bin (?:psycho)?therapie\b|\brollstuhl\b|\bmeine (?:diagnose"
            r"|krankheit|depression|erkrankung|therapie|medikamente)\b"
        ),
        (
            r"\b(?:am|sufar|sunt|iau|din cauza|de cand|diagnosticat\w*|in evidenta"
            r"|tulburare)\b.{0,40}\b(?:cancer|diabet\w*|astm\w*|epilepsi\w*|depresi\w*|anxietat\w*"
            r"|migren\w*|hiv|sida|hepatit\w*|bipolar\w*|schizofreni\w*|adhd|autis\w*"
            r"|hipertensiun\w*"
            r"|insarcinat\w*|psihiatri\w*|psihoterap\w*|dializa|insulina|antidepresive"
            r"|chimioterapie"
            r"|handicap\w*|alcoolic\w*|boala|alergi\w* la (?:penicilin|medicament)\w*)\b"
            r"|\bscaun(?:ul)? (?:cu rotile|rulant)|\bboala mea\b|\bdiagnosticul meu\b"
        ),
        (
            r"\b(?:j'ai|je suis|je souffre|je prends|atteinte? d|depuis"
            r"|a cause)\b.{0,40}\b(?:cancer"
            r"|diabet\w*|asthm\w*|epilep\w*|depress\w*|anxie\w*|migraine\w*|vih|sida|hepatite"
            r"|bipolaire|schizophren\w*|autis\w*|tdah|hypertension|enceinte|handicap\w*|alcoolique"
            r"|antidepresseurs|insuline|chimio\w*|sclerose|burn-?out)\b|\bfauteuil roulant\b"
            r"|\bma maladie\b|\bmon (?:psychiatre|psy|diagnostic)\b"
        ),
        (
            r"\b(?:tengo|sufro|padezco|soy|estoy|tomo|tenho|sofro|sou|estou|ho|soffro|sono"
            r"|prendo)\b.{0,40}\b(?:cancer|cancro|tumor\w*|diabet\w*|asma\w*|epilep\w*|epiless\w*"
            r"|depres\w*|ansied\w*|ansia|migran\w*|emicrania|enxaqueca|vih|hiv|sida|aids|hepatitis"
            r"|epatite|bipolar\w*|esquizofren\w*|schizofren\w*|autis\w*|tdah|hipertens\w*"
            r"|embarazada"
            r"|gravida|incinta|discapaci\w*|deficien\w*|disabile|alcoholic\w*|alcoolista"
            r"|antidepres\w*|insulina|quimio\w*|chemio\w*|celiac\w*|esclerosis|sclerosi)\b"
            r"|\b(?:silla de ruedas|cadeira de rodas|sedia a rotelle)\b|\bmi (?:enfermedad"
            r"|diagnostico|psiquiatra)\b"
        ),
        (
            r"(?:患有|得了|有|确诊|診斷|查出)[^。，]{0,6}(?:癌|肝炎|乙肝|糖尿病|抑郁|憂鬱"
            r"|艾滋|哮喘|癫痫|高血压|心脏病|焦虑症|精神|肿瘤|残疾|双相)"
            r"|(?:怀孕|吃药|服药|化疗|透析|住院|轮椅|精神科)|(?:うつ病|糖尿病|がん|癌"
            r"|てんかん|喘息|妊娠|障害者|車椅子)|(?:우울증|당뇨"
            r"|암에|간질|천식|임신"
            r"|장애인|휠체어)"
            r"|\b(?:у меня|я (?:болею|болен|больна|страдаю|беременна|инвалид"
            r"|принимаю))\b.{0,40}(?:рак|диабет|астм|эпилепс|депресс|вич|гепатит|шизофрен|биполяр"
            r"|мигрен|гипертон|таблетки|антидепресс|инвалидн|беремен|алкогол)|(?:عندي|لدي"
            r"|اعاني|مصاب"
            r"|انا)[^.]{0,20}(?:سرطان|سكري|ربو|صرع|اكتءاب|اكتياب|حامل|معاق|ضغط الدم)|(?:من"
            r"|دارم)[^.]{0,20}(?:سرطان|دیابت|افسردگی|صرع|باردار)"
        ),
        (
            r"\b(?:ik heb|ik ben|mam|jestem|cukorbeteg|rakom|depresszi\w+|terhes vagyok"
            r"|seker hastasi\w*|kanser\w*|hamileyim|depresyon\w*)\b.{0,30}\b(?:kanker|suikerziekte"
            r"|diabetes|depress\w*|zwanger|epilepsie|raka|cukrzyc\w*|depresj\w*|ciazy"
            r"|padaczk\w*|van"
            r"|vagyok|im|um|dayim|teyim)\b"
        ),
    ),
    "finances": (
        phrases.FINANCES_EN,
        (
            r"\b(?:ich verdiene|mein (?:gehalt|einkommen|lohn|vermogen)|meine (?:schulden"
            r"|ersparnisse"
            r"|rente|hypothek))\b.{0,30}\d|\bich (?:habe|hab)\b.{0,30}\d.{0,15}\b(?:schulden|kredit"
            r"|ersparnisse)\b|\bprivatinsolvenz\b|\b(?:castig|salariul meu|venitul meu"
            r"|am (?:datorii"
            r"|un credit|rate|economii))\b.{0,40}\d|\bcredit ipotecar\b"
            r"|\b(?:je gagne|mon (?:salaire|revenu)|mes (?:dettes|economies))\b.{0,30}\d"
            r"|\bsurendett\w+|\b(?:gano|cobro|mi (?:sueldo|salario|deuda|hipoteca)|ganho"
            r"|meu salario"
            r"|minha divida|guadagno|il mio stipendio|i miei debiti)\b.{0,30}\d|\b(?:ik verdien"
            r"|mijn salaris|zarabiam|moja pensja|a fizetesem|maasim)\b.{0,30}\d|(?:月薪|年薪"
            r"|工资|收入|存款|欠债"
            r"|负债|房贷)[^。]{0,8}\d|(?:зарабатываю|моя зарплата|мой доход|мой долг"
            r"|ипотека)\b.{0,30}\d"
            r"|(?:راتبي|دخلي|درآمد من|حقوق من)[^.]{0,15}\d"
        ),
    ),
    "address": (phrases.ADDRESS,),
    "religion": (
        phrases.RELIGION_EN,
        (
            r"\b(?:ich bin|als|bin) (?:\w+ )?(?:judisch\w*|jude|judin|katholi\w+|evangelisch\w*"
            r"|protestant\w*|muslim\w*|moslem\w*|christ(?:in|lich)?|buddhist\w*"
            r"|hindu\w*|atheist\w*|religios"
            r"|glaubig|konfessionslos)\b|\bzum islam konvertiert\b|\b(?:in die"
            r"|zur) (?:kirche|moschee"
            r"|synagoge|messe)\b|\b(?:sunt|eu sunt) (?:\w+ )?(?:ortodox|catolic|musulman|evreu"
            r"|evreica|ateu|atee|baptist|penticostal|adventist|crestin|greco-catolic|budist"
            r"|credincios)\w*\b|\bmerg la (?:biserica|moschee|sinagoga|slujba)\b"
            r"|\bje suis (?:\w+ )?(?:catholique|musulman\w*|juif|juive|protestant\w*"
            r"|athee|bouddhiste"
            r"|chretien\w*|croyant\w*)\b|\bje vais a (?:la messe|l'eglise|la mosquee"
            r"|la synagogue)\b"
            r"|\b(?:soy|sou|sono) (?:\w+ )?(?:ate[oa]|catolic[oa]|cattolic[oa]|musulman[oa]"
            r"|muculman[oa]|judi[oa]|judeu|ebre[oa]|evangelic[oa]|protestante|cristian[oa]|budista"
            r"|buddista|cretiano|creyente|crente|credente|agnostic[oa])\b|\b(?:voy a|vou a|vado a"
            r"|vou ao) (?:la )?(?:misa|missa|messa|iglesia|igreja|chiesa|mezquita|mesquita)\b"
            r"|\b(?:ik ben|jestem) (?:\w+ )?(?:katholiek|moslim|joods|christelijk|atheist"
            r"|katolik\w*"
            r"|muzulman\w*|zyd\w*|ateist\w*|wierzac\w*)\b|\b(?:katolikus|reformatus|muszlim|zsido"
            r"|ateista) vagyok|\b(?:muslumanim|ateistim|aleviyim|hristiyanim)\b|我(?:是"
            r"|信)(?:[^。]{0,4})(?:基督|佛教|伊斯兰|穆斯林|天主|道教|回民|佛|无神论)"
            r"|\bя (?:\w+ )?(?:христиан|православ"
            r"|мусульман|еврей|еврейка|иудей|атеист|католи|буддист|верующ)\w*|(?:انا|أنا) (?:مسلم"
            r"|مسيحي|شيعي|سني|ملحد|يهودي)|من (?:مسلمان|مسیحی|شیعه|سنی|بهایی|بی‌?دین)"
        ),
    ),
    "politics": (
        phrases.POLITICS_EN,
        (
            r"\bich (?:wahle|bin mitglied (?:der|bei|in der)|bin in der"
            r"|unterstutze die) (?:\w+ )?(?:partei|afd|cdu|csu|spd|fdp|grunen?|linke|bsw)\b"
            r"|\b(?:votez (?:cu|pentru)|am votat (?:cu|pentru)|sunt membru (?:in|al)"
            r"|membru de partid"
            r"|sunt (?:de stanga|de dreapta|comunist|socialist|liberal))\b|\bje (?:vote|milite"
            r"|suis (?:de gauche|de droite|socialiste|communiste|membre du parti))\b|\b(?:voto (?:a"
            r"|al|por|per|em|no)|milito (?:en|no|na|nel)|soy (?:de izquierdas?|de derechas?"
            r"|socialista|comunista)|sou (?:de esquerda|de direita|filiado)|sono (?:di sinistra"
            r"|di destra|comunista|iscritto al partito))\b"
            r"|\bik stem (?:op|altijd)\b|\b(?:glosuje na|jestem w partii)\b|我(?:是)?(?:支持|加入"
            r"|投票给)[^。]{0,6}党|我是[^。]{0,3}党员|\bя (?:голосую|голосовал\w*"
            r"|состою в партии|член партии"
            r"|коммунист|либерал)\b"
        ),
    ),
    "union": (
        phrases.UNION_EN,
        (
            r"\b(?:gewerkschaft(?:er|erin|s?mitglied|lich)?|betriebsrat\w*|syndique\w*|syndicat"
            r"|greviste|sindicat\w*|sindacat\w*|sindacalist\w*|vakbond\w*|vakbondslid"
            r"|zwiazku zawodow\w*|zwiazkowiec|szakszervezet\w*|sendika\w*|профсоюз\w*)\b"
            r"|工会|労働組合|노조"
        ),
    ),
    "sexual_life": (
        phrases.SEXUAL_EN,
        (
            r"\b(?:ich bin|sunt|je suis|soy|sou|sono|ik ben|jestem) (?:\w+ )?(?:schwul|lesbisch"
            r"|bisexuell|homosexuell|asexuell|transgender|trans|queer|gay|lesbian\w*|bisexual\w*"
            r"|homosexual\w*|heterosexual\w*|homosexuel\w*|bisexuel\w*|lesbienne|lesbic\w*"
            r"|bisessual\w*|omosessual\w*|transexual\w*|transessual\w*|gej\w*|lesbijk\w*|lesbisch"
            r"|homo)\b|我是(?:同性恋|双性恋|同志|跨性别)|\bя (?:гей|лесбиянка"
            r"|бисексуал\w*|трансгендер\w*)"
        ),
    ),
    "biometrics": (phrases.BIOMETRICS,),
    "criminal_record": (phrases.CRIMINAL,),
    "origin": (phrases.ORIGIN,),
}
CATEGORIES: Final = frozenset(_TABLE)

_PATTERNS: Final = {category: one_of(*parts) for category, parts in _TABLE.items()}
# A trade that deals with the subject. It excuses a mention, not "I have" or "I am".
_TRADE = re.compile(
    r"\b(?:work(?:s|ed|ing)? (?:on|in|for|at|with|as)|develop\w*|build\w*|design\w*|maintain\w*"
    r"|research\w*|study|studying|studied|teach\w*|cover|write about|sell\w*|journalist|reporter"
    r"|nurse|doctor|physician|surgeon|engineer|lawyer|attorney|software|app|apps|startup|company"
    r"|clients?|product|platform|charity|volunteer\w*|thesis|phd|historian|priest by|analyst"
    r"|consultant|therapist at|scientist"
    r"|arbeite|entwickl\w+|studier\w+|forsch\w+|lucrez|dezvolt|predau|studiez|travaille|developpe"
    r"|etudie|trabajo|desarroll\w+|estudio|trabalho|desenvolvo|lavoro|sviluppo"
    r"|werk als)\b|工作|开发"
    r"|研究|работаю|изучаю|اعمل|کار می"
)
_PERSONAL = re.compile(
    r"\b(?:i have|i've|i suffer|diagnosed|i am (?!an? (?:\w+ )?(?:journalist|nurse|doctor"
    r"|engineer|developer|researcher|teacher|consultant|analyst|scientist|writer|lawyer))"
    r"|i'm (?!an? )|i was|ich (?:habe|bin)|am (?:un|o)\b|sunt|j'ai|je suis|tengo|soy|tenho|sou"
    r"|ho\b|sono|my (?:wife|husband|son|daughter|mother|father|salary|income|faith|diagnosis"
    r"|illness))"
)


def categories(folded: str, blocked: AbstractSet[str]) -> set[str]:
    """The blocked categories that a fact falls into. Folded text without accents."""
    found = {name for name in blocked & CATEGORIES if _PATTERNS[name].search(folded)}
    if found and _TRADE.search(folded) and not _PERSONAL.search(folded):
        return found & {"address", "biometrics"}
    return found
