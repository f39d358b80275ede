"""Special categories of personal data, which a tenant must allow before they are remembered.

A statement about a person is meant, not a subject: "I build a prayer times app" and "I teach
oncology" are jobs. Where a word alone can't tell, a job, product or study beside it lets it pass.
"""

import re
from collections.abc import Mapping, Set as AbstractSet
from typing import Final

from app.text import without_accents

_HAVE: Final = (
    r"(?:i have|i've|i had|i've had|i got|has|have|had|suffer\w* (?:from|with)|living with|live with|lives with|diagnosed with|diagnosis of"
    r"|because of|due to|my|treated for|recovering from|recovered from|struggl\w+ with|battling|since|with)"
)
_CONDITION: Final = (
    r"(?:\w+ )?(?:cancer|tumou?rs?|leuk(?:a)?emia|lymphoma|diabet\w+|asthma\w*|epilep\w+|seizures?|migraines?|arthritis|hypertension|high blood pressure|heart (?:disease|condition|attack|failure)|stroke|hiv|aids|hepatitis|tuberculosis"
    r"|covid|depress(?:ion|ed|ive)|anxiety(?: disorder)?|bipolar|schizophren\w+|adhd|autis\w+|asperger\w*|ptsd|ocd|burn-?out|panic attacks?|eating disorder|anorexi\w+|bulimi\w+|addiction|alcoholi\w+|dementia|alzheimer\w*|parkinson\w*"
    r"|multiple sclerosis|crohn\w*|ibs|colitis|celiac|coeliac|thyroid|fibromyalgia|endometriosis|psoriasis|eczema|lupus|anemia|anaemia|insomnia|infertil\w+|miscarriage|chronic (?:pain|illness|fatigue|disease)|disabilit\w+|disabled|paralys\w+"
    r"|allerg\w+ to (?:penicillin|medic\w+|bee\w*|wasp\w*)|std|sti|syphilis|gonorrh\w+|herpes|kidney (?:disease|failure)|dyslexi\w+|stutter|ulcers?|hernia|lyme|sclerosis|down syndrome)"
)
_HEALTH_EN: Final = (
    rf"\b{_HAVE} (?:an? |the |my |mild |severe |chronic |bad |type \d |stage \w+ |some |really |been |recently |also |a history of )*{_CONDITION}\b"
    r"|\b(?:i am|i'm|is|are|am|was) (?:an? |now |also |clinically |severely |legally |partially )*(?:diabetic|epileptic|asthmatic|autistic|bipolar|hiv[ -]positive|depressed|disabled|blind|deaf|paraly[sz]ed|pregnant|infertile|anorexic|alcoholic|schizophrenic|immunocompromised|an addict|addicted|hard of hearing|dyslexic|terminally ill|chronically ill|in remission|in rehab)\b"
    r"|\bhiv[ -]?(?:positive|\+)|\b(?:wheelchair|pacemaker|insulin|chemo\w*|dialysis|antidepressants?|ssris?|lithium|methadone|prozac|zoloft|ritalin|adderall|xanax|metformin|prosthe\w+|hearing aids?|colostomy|inhaler)\b"
    r"|\b(?:i|my \w+|she|he) (?:\w+ )?(?:see|sees|seeing|visit|go to|goes to|going to|am in|is in) (?:a |an |my |the |to )*(?:therapist|psychiatrist|psychologist|therapy|rehab|oncologist|counsel\w+)\b"
    r"|\b(?:had|having|have|get|getting|after|scheduled for) (?:an? |my |the )?(?:abortion|miscarriage|vasectomy|hysterectomy|mastectomy|surgery|transplant|heart attack|stroke|nervous breakdown|operation on)\b"
    r"|\bi take (?:\w+ )?(?:pills|medication|meds|tablets|drugs) (?:for|against)\b|\bmy (?:medication|meds|diagnosis|illness|disease|disability|blood (?:type|pressure|sugar)|psychiatrist|therapist|oncologist|chemo\w*|prescription)\b|\bsuicid\w+|\bself-?harm\w*"
)
_RELIGION_EN: Final = (
    r"\b(?:i am|i'm|i was|we are|we're|as|being|is|are|became|raised|user is|practi[sc]ing|devout|observant|born|turned) (?:an? |now |also |very |raised |a practi[sc]ing |a devout |an observant |not |strictly |proud |proudly )*"
    r"(?:christian|catholic|protestant|orthodox (?:christian|jew\w*)|evangelical|baptist|lutheran|methodist|pentecostal|mormon|adventist|jehovah'?s witness\w*|muslim|sunni|shia|shi'ite|jew|jewish|hindu|buddhist|sikh|atheist|agnostic|pagan|wiccan|scientologist|bahai|jain|religious|quaker|zoroastrian)s?\b"
    r"|\b(?:convert\w* to|practi[sc]e|believe in|follow) (?:islam|christianity|judaism|hinduism|buddhism|catholicism|sikhism|god|allah|jesus|orthodoxy)\b|\b(?:go(?:es)? to|attend) (?:the |a |my )?(?:\w+ )?(?:mass|church|mosque|synagogue|temple|gurdwara|sunday service)\b"
    r"|\bi (?:\w+ )?(?:pray|fast (?:during|for)|observe (?:ramadan|lent|shabbat|sabbath)|keep (?:kosher|halal|the sabbath))\b|\bmy (?:faith|religion|religious|church|mosque|parish|rabbi|imam|priest|pastor|baptism)\b"
)
_POLITICS_EN: Final = (
    r"\bi(?:'ve| have|'ll| will|'m| am)? (?:\w+ )?(?:vote[ds]?|voting|campaign\w*|canvass\w*|donate[ds]?|donating) (?:for|to) (?:the |a )?(?!charity|open)\w+"
    r"|\b(?:i am|i'm|member of|supporter of|activist (?:for|in)|joined|support|belong to|card-carrying) (?:an? |the |of the |very |a lifelong |a registered |staunch )*(?:\w+ ){0,2}(?:democrats?|republicans?|socialist|communist|conservatives?|labour|tory|liberal|libertarian|anarchist|marxist|green party|left-?wing(?:er)?|right-?wing(?:er)?|nationalist|fascist|leftist|progressive|trump|biden|afd|cdu|spd|party)\b(?! (?:planner|app|supplies))"
    r"|\bmy (?:political|politics|party membership)\b|\bpolitically i\b"
)
_UNION_EN: Final = r"\b(?:trade|labou?r|workers'?|teachers'?|my|our|the) union(?:'s)? (?:member\w*|rep\w*|card|dues|steward|organi[sz]er|branch)|\b(?:member|rep|steward|organi[sz]er) (?:of|in|for|at) (?:a |the |my |our )?(?:\w+ )?(?:trade |labou?r )?union\b|\b(?:joined|in|belong to|pay dues to) (?:a|the|my) (?:\w+ )?(?:trade |labou?r )?union\b|\bunioni[sz]ed\b|\bon strike\b|\b(?:unite|unison|ver\.?di|ig metall|ugt|ccoo|cgt|cgil|teamsters|afl-cio) (?:member|rep)"
_SEXUAL_EN: Final = (
    r"\b(?:i am|i'm|i came out as|came out as|is|are|as|being|identify as|openly) (?:an? |also |openly |not |secretly |actually |a proud )*(?:gay|lesbian|bi-?sexual|bi|straight|hetero\w*|homosexual|asexual|pansexual|queer|trans(?:gender|sexual)?|non-?binary|polyamorous|a virgin|lgbtq?\w*)\b(?! (?:forward|away|line|to the point|answers?))"
    r"|\bmy (?:sex life|sexual\w*|sexual orientation|gender identity|transition|fetish|kinks?|affair|lover)\b|\b(?:having|have|had) (?:an affair|a one-night stand|unprotected sex|sex with)\b|\bmy (?:same-sex|gay) \w+|\bhormone therapy\b"
)
_FINANCES_EN: Final = (
    r"\b(?:i|we|she|he|my \w+) (?:\w+ )?(?:earn|earns|make|makes|made|take home|get paid|am paid|is paid)\b.{0,20}(?:[$€£¥]\s?\d|\b\d[\d.,]*\s?(?:k\b|thousand|grand|million|eur\w*|usd|dollars?|pounds?|lei|ron|euros?|gbp|chf|a (?:year|month)|per (?:year|month|hour)|an hour|net|gross))"
    r"|\bmy (?:\w+ )?(?:salary|income|wage|pay|net worth|savings|debts?|mortgage|credit score|pension|bonus|overdraft|bank balance|loan|rent|inheritance|take-home)\b.{0,20}(?:\b(?:is|are|was|of|=|:|stands)\b|[$€£]).{0,20}\d"
    r"|\bi(?:'m| am)? (?:\w+ )?(?:owe|in debt|bankrupt|behind on (?:my )?(?:rent|mortgage|payments)|on (?:welfare|benefits|food stamps)|filed for bankruptcy|broke\b)|\b(?:have|has|had|with) (?:a |an |about |around |over )?[$€£]?\s?\d[\d.,]*\s?(?:k|million|thousand|eur|usd|lei|euros?|dollars?|pounds?)?\s?(?:\w+ )?(?:in|of) (?:(?:my |the |a )?(?:\w+ )?(?:savings|debts?|bank|student loans?|credit card debt|loans?|mortgage|crypto|bitcoin|stocks|shares))"
    r"|\bcredit score\b.{0,12}\d{3}|\bmy bank (?:account|balance)\b"
)
_STREET_EN: Final = r"(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|court|ct|close|crescent|square|sq|terrace|way|place|pl|gardens|row|hill|mews|highway|parkway)"
_ADDRESS: Final = (
    rf"\b\d{{1,5}}[a-z]?,? (?:\w+[.']? ){{1,4}}{_STREET_EN}\b|\b(?:apartment|apt|flat|unit|suite|house)\.? (?:no\.? ?|number |#)?\d+\w?\b.{{0,40}}\b(?:{_STREET_EN}|floor|building|block)\b|(?<![\d.])[-+]?\d{{1,2}}\.\d{{3,}}\s?[,;/ ]\s?[-+]?\d{{1,3}}\.\d{{3,}}|\bp\.?o\.? box \d+"
    r"|\b(?:my|our|home|postal|street|delivery) address(?:es)? (?:is|are|:)|\b(?:live|lives|house|home|reside|flat|apartment) (?:is )?(?:at|on) (?:number )?\d+\w? \w+|\bmy (?:post ?code|zip(?: code)?) is\b"
    r"|\b\w*(?:strasse|str\.|gasse|weg|platz|allee|ufer|damm|ring)\s+\d{1,4}\s?[a-z]?\b|\b(?:strada|str\.|bulevardul|bd\.|aleea|calea|soseaua|piata|intrarea)\s.{1,40}\b(?:nr\.?|numarul|bloc\w*|bl\.|scara|sc\.|ap\.|apartament\w*)?\s?\d+|\b\d{1,4},? (?:bis |ter )?(?:rue|avenue|boulevard|impasse|allee|place|chemin|quai) \w+"
    r"|\b(?:calle|avenida|avda\.?|plaza|paseo|rua|travessa|praca|via|viale|piazza|corso|largo) (?:\w+ ){1,4},? ?(?:n\.?º? ?|numero |no\.? )?\d+|\b\w+(?:straat|laan|weg|gracht|plein|kade) \d+|\b(?:ul\.|ulica|aleja) \w+ \d+|\b\w+ (?:utca|ut|ter) \d+|(?:улица|ул\.|проспект|пр\.) .{1,30}\d+|[路街巷弄][^，。]{0,6}\d+\s?[号號]|\d+\s?[号號][楼樓]|(?:番地|丁目)"
)
_BIOMETRICS: Final = (
    r"\b(?:my|his|her|our|user'?s) (?:\w+ )?(?:finger ?prints?|iris|retina\w*|face ?(?:id|print|scan|template)|voice ?print|palm ?(?:print|vein)|dna|genome|genetic\w*|gait|biometric\w*)\b|\b(?:finger ?print|iris|retina|face|voice|palm|biometric) (?:template|scan|hash|data|vector|embedding|minutiae)\b.{0,30}\b(?:is|are|stored|fmr|mine|my)\b|\b23andme\b"
    r"|\b(?:mein\w* fingerabdruck|amprenta mea|amprentele mele|mon empreinte|mi huella|minha impressao digital|la mia impronta)|我的指纹|отпечат\w+ мо|بصمت"
)
_CHILD_EN: Final = r"(?:son|daughter|child|kid|kids|children|boy|girl|toddler|baby|stepson|stepdaughter|grandson|granddaughter|nephew|niece|twins?)"
_MINORS: Final = (
    rf"\b(?:my|our) (?:\w+ ){{0,2}}{_CHILD_EN}\b.{{0,60}}\b(?:school|primary|kindergarten|nursery|daycare|creche|grade|class|teacher|picked up|born (?:on|in)|birthday|aged?|years? old|year-old|attends?|goes to|bullied|phone|lives with|custody|is \d{{1,2}})\b|\b(?:my|our) (?:\d{{1,2}}[- ]years?[- ]old|minor|teenage) |\b(?:my|our) {_CHILD_EN},? (?:\w+, ?)?(?:\d{{1,2}}|[a-z]+, \d{{1,2}})\b"
    r"|\bi(?:'m| am) (?:only )?(?:[5-9]|1[0-7])(?: years? old|,| and|\.|$)|\b(?:mein\w* (?:sohn|tochter|kind)|fiul meu|fiica mea|copilul (?:meu|nostru)|baiatul meu|fetita mea|mon fils|ma fille|mon enfant|mi hij[oa]|meu filho|minha filha|mio figlio|mia figlia|mijn (?:zoon|dochter))\b.{0,60}\b(?:schule|grundschule|klasse|kita|kindergarten|jahre alt|scoala|gradinit\w+|clasa|ani|ecole|maternelle|classe|ans|escuela|colegio|escola|scuola|clase|anos|anni|school|jaar|\d{1,2})\b"
    r"|我(?:的)?(?:儿子|女儿|孩子)[^。]{0,15}(?:岁|学校|小学|幼儿园|年级|班)|мо[йия]\w* (?:сын|дочь|реб[её]нок)\w* .{0,30}(?:школ|класс|лет|сад)"
)
_KIN_EN: Final = r"(?:wife|husband|partner|spouse|mother|mom|mum|father|dad|sister|brother|son|daughter|child|kid|baby|aunt|uncle|cousin|grand\w+|friend|boss|manager|colleague|coworker|girlfriend|boyfriend|neighbou?r|ex|roommate|mother-in-law|father-in-law|parents|client|employee)"
_THIRD_HEALTH: Final = (
    rf"\b(?:my|our|his|her) (?:\w+ )?{_KIN_EN}(?:'s)?\b.{{0,40}}\b(?:{_CONDITION}|pregnant|surgery|therapy|hospital\w*|in rehab|ill|sick|disease|dying|depressed|diabetic|autistic|wheelchair|medication|diagnos\w+|chemo\w*)\b"
    r"|\b(?:mein\w*|unser\w*) (?:frau|mann|mutter|vater|bruder|schwester|chef\w*|kolleg\w*|freund\w*)\b.{0,40}\b(?:krebs|depress\w*|krank\w*|diabet\w*|schwanger|demenz|alzheimer|klinik|therapie|krankenhaus)|\b(?:sotia|sotul|mama|tata|fratele|sora|seful|colegul|colega|prietenul)\b.{0,40}\b(?:cancer|depresi\w*|boln\w*|diabet\w*|insarcinat\w*|dementa|spital|alcoolic\w*)"
    r"|\b(?:ma femme|mon mari|ma mere|mon pere|mon frere|ma soeur|mi mujer|mi marido|mi madre|mi padre|mi hermano|mi hermana|mia moglie|mio marito|mia madre|mio padre|minha mae|meu pai)\b.{0,40}\b(?:cancer|cancro|tumore|depres\w*|depress\w*|malad\w*|enferm\w*|malat\w*|doente|diabet\w*|enceinte|embarazad\w*|incinta|gravida|alzheimer)|我(?:的)?(?:妻子|老婆|丈夫|老公|妈妈|母亲|爸爸|父亲|哥哥|姐姐|弟弟|妹妹|老板|同事|朋友)[^。]{0,12}(?:癌|病|抑郁|怀孕|手术|糖尿)"
)
_CRIMINAL: Final = (
    r"\b(?:i was|i've been|i have been|i am|i'm|he was|she was|was|got|been) (?:\w+ )?(?:convicted|arrested|jailed|imprisoned|sentenced|on (?:parole|probation)|charged with|indicted|found guilty|in (?:prison|jail))\b|\b(?:my|a|have a|with a) (?:criminal record|conviction|felony|prison sentence|dui)\b|\b(?:served|spent|did) (?:\w+ ){1,3}(?:in (?:prison|jail)|behind bars)\b"
    r"|\b(?:vorbestraft|verurteilt wegen|im gefangnis|condamnat\w* (?:pentru|la)|cazier|inchisoare|j'ai ete condamne\w*|casier judiciaire|en prison|fui condenad\w*|antecedentes penales|en la carcel|fui condenado|preso por|sono stato condannato|in carcere|fedina penale|veroordeeld)\b|坐过牢|被判|犯罪记录|судим(?:ость)?\b|был[аи]? осужд\w+"
)
_ORIGIN: Final = (
    r"\b(?:undocumented|illegal immigrant|asylum seeker|visa (?:ran out|expired|was denied|overstay\w*)|overstay\w* my visa|refugee status|my (?:ethnicity|race|skin colou?r|immigration status|tribe|caste)|deport(?:ed|ation))\b|\bi(?:'m| am) (?:an? |of |half |part |ethnically |originally )*(?:black|white|african[- ]american|roma(?: origin| ethnicity)?|gypsy|latin[oax]|hispanic|indigenous|biracial|mixed[- ]race|asian descent|of colou?r|kurdish|uyghur|dalit)\b(?! (?:belt|hat|box))"
    r"|\b(?:abgeschobene?r?|asylbewerber\w*|ohne papiere|aufenthaltstitel abgelaufen|sans-papiers|sin papeles|indocumentad\w+|clandestin\w+|solicitante de asilo|de etnie \w+|sunt rom\b|sunt (?:de etnie|tigan)\w*)\b|没有合法身份|非法移民"
)
_TABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "third_party_health": (_THIRD_HEALTH,),
    "minors": (_MINORS,),
    "health": (
        _HEALTH_EN,
        r"\b(?:ich (?:habe|leide|bin|nehme|hatte)|seit|wegen|mit)\b.{0,40}\b(?:krebs|diabet\w*|asthma|epileps\w*|depress\w*|migrane|angststorung|burn-?out|adhs|autis\w*|hiv|aids|rheuma|bluthochdruck|herz(?:infarkt|krank\w*|fehler)|schlaganfall|borreliose|schwanger|behindert|schwerbehindert|querschnittsgelahmt|magersucht|sucht|alkoholiker\w*|antidepressiva|insulin|tabletten gegen|chemotherapie|multiple sklerose|zoliakie|allergi\w+ gegen)\b|\bin (?:psycho)?therapie\b|\brollstuhl\b|\bmeine (?:diagnose|krankheit|depression|erkrankung|therapie|medikamente)\b",
        r"\b(?:am|sufar|sunt|iau|din cauza|de cand|diagnosticat\w*|in evidenta|tulburare)\b.{0,40}\b(?:cancer|diabet\w*|astm\w*|epilepsi\w*|depresi\w*|anxietat\w*|migren\w*|hiv|sida|hepatit\w*|bipolar\w*|schizofreni\w*|adhd|autis\w*|hipertensiun\w*|insarcinat\w*|psihiatri\w*|psihoterap\w*|dializa|insulina|antidepresive|chimioterapie|handicap\w*|alcoolic\w*|boala|alergi\w* la (?:penicilin|medicament)\w*)\b|\bscaun(?:ul)? (?:cu rotile|rulant)|\bboala mea\b|\bdiagnosticul meu\b",
        r"\b(?:j'ai|je suis|je souffre|je prends|atteinte? d|depuis|a cause)\b.{0,40}\b(?:cancer|diabet\w*|asthm\w*|epilep\w*|depress\w*|anxie\w*|migraine\w*|vih|sida|hepatite|bipolaire|schizophren\w*|autis\w*|tdah|hypertension|enceinte|handicap\w*|alcoolique|antidepresseurs|insuline|chimio\w*|sclerose|burn-?out)\b|\bfauteuil roulant\b|\bma maladie\b|\bmon (?:psychiatre|psy|diagnostic)\b",
        r"\b(?:tengo|sufro|padezco|soy|estoy|tomo|tenho|sofro|sou|estou|ho|soffro|sono|prendo)\b.{0,40}\b(?:cancer|cancro|tumor\w*|diabet\w*|asma\w*|epilep\w*|epiless\w*|depres\w*|ansied\w*|ansia|migran\w*|emicrania|enxaqueca|vih|hiv|sida|aids|hepatitis|epatite|bipolar\w*|esquizofren\w*|schizofren\w*|autis\w*|tdah|hipertens\w*|embarazada|gravida|incinta|discapaci\w*|deficien\w*|disabile|alcoholic\w*|alcoolista|antidepres\w*|insulina|quimio\w*|chemio\w*|celiac\w*|esclerosis|sclerosi)\b|\b(?:silla de ruedas|cadeira de rodas|sedia a rotelle)\b|\bmi (?:enfermedad|diagnostico|psiquiatra)\b",
        r"(?:患有|得了|有|确诊|診斷|查出)[^。，]{0,6}(?:癌|肝炎|乙肝|糖尿病|抑郁|憂鬱|艾滋|哮喘|癫痫|高血压|心脏病|焦虑症|精神|肿瘤|残疾|双相)|(?:怀孕|吃药|服药|化疗|透析|住院|轮椅|精神科)|(?:うつ病|糖尿病|がん|癌|てんかん|喘息|妊娠|障害者|車椅子)|(?:우울증|당뇨|암에|간질|천식|임신|장애인|휠체어)"
        r"|\b(?:у меня|я (?:болею|болен|больна|страдаю|беременна|инвалид|принимаю))\b.{0,40}(?:рак|диабет|астм|эпилепс|депресс|вич|гепатит|шизофрен|биполяр|мигрен|гипертон|таблетки|антидепресс|инвалидн|беремен|алкогол)|(?:عندي|لدي|اعاني|مصاب|انا)[^.]{0,20}(?:سرطان|سكري|ربو|صرع|اكتءاب|اكتياب|حامل|معاق|ضغط الدم)|(?:من|دارم)[^.]{0,20}(?:سرطان|دیابت|افسردگی|صرع|باردار)",
        r"\b(?:ik heb|ik ben|mam|jestem|cukorbeteg|rakom|depresszi\w+|terhes vagyok|seker hastasi\w*|kanser\w*|hamileyim|depresyon\w*)\b.{0,30}\b(?:kanker|suikerziekte|diabetes|depress\w*|zwanger|epilepsie|raka|cukrzyc\w*|depresj\w*|ciazy|padaczk\w*|van|vagyok|im|um|dayim|teyim)\b",
    ),
    "finances": (
        _FINANCES_EN,
        r"\b(?:ich verdiene|mein (?:gehalt|einkommen|lohn|vermogen)|meine (?:schulden|ersparnisse|rente|hypothek))\b.{0,30}\d|\bich (?:habe|hab)\b.{0,30}\d.{0,15}\b(?:schulden|kredit|ersparnisse)\b|\bprivatinsolvenz\b|\b(?:castig|salariul meu|venitul meu|am (?:datorii|un credit|rate|economii))\b.{0,40}\d|\bcredit ipotecar\b"
        r"|\b(?:je gagne|mon (?:salaire|revenu)|mes (?:dettes|economies))\b.{0,30}\d|\bsurendett\w+|\b(?:gano|cobro|mi (?:sueldo|salario|deuda|hipoteca)|ganho|meu salario|minha divida|guadagno|il mio stipendio|i miei debiti)\b.{0,30}\d|\b(?:ik verdien|mijn salaris|zarabiam|moja pensja|a fizetesem|maasim)\b.{0,30}\d|(?:月薪|年薪|工资|收入|存款|欠债|负债|房贷)[^。]{0,8}\d|(?:зарабатываю|моя зарплата|мой доход|мой долг|ипотека)\b.{0,30}\d|(?:راتبي|دخلي|درآمد من|حقوق من)[^.]{0,15}\d",
    ),
    "address": (_ADDRESS,),
    "religion": (
        _RELIGION_EN,
        r"\b(?:ich bin|als|bin) (?:\w+ )?(?:judisch\w*|jude|judin|katholi\w+|evangelisch\w*|protestant\w*|muslim\w*|moslem\w*|christ\w*|buddhist\w*|hindu\w*|atheist\w*|religios|glaubig|konfessionslos)\b|\bzum islam konvertiert\b|\b(?:in die|zur) (?:kirche|moschee|synagoge|messe)\b|\b(?:sunt|eu sunt) (?:\w+ )?(?:ortodox|catolic|musulman|evreu|evreica|ateu|atee|baptist|penticostal|adventist|crestin|greco-catolic|budist|credincios)\w*\b|\bmerg la (?:biserica|moschee|sinagoga|slujba)\b"
        r"|\bje suis (?:\w+ )?(?:catholique|musulman\w*|juif|juive|protestant\w*|athee|bouddhiste|chretien\w*|croyant\w*)\b|\bje vais a (?:la messe|l'eglise|la mosquee|la synagogue)\b|\b(?:soy|sou|sono) (?:\w+ )?(?:ate[oa]|catolic[oa]|cattolic[oa]|musulman[oa]|muculman[oa]|judi[oa]|judeu|ebre[oa]|evangelic[oa]|protestante|cristian[oa]|budista|buddista|cretiano|creyente|crente|credente|agnostic[oa])\b|\b(?:voy a|vou a|vado a|vou ao) (?:la )?(?:misa|missa|messa|iglesia|igreja|chiesa|mezquita|mesquita)\b"
        r"|\b(?:ik ben|jestem) (?:\w+ )?(?:katholiek|moslim|joods|christelijk|atheist|katolik\w*|muzulman\w*|zyd\w*|ateist\w*|wierzac\w*)\b|\b(?:katolikus|reformatus|muszlim|zsido|ateista) vagyok|\b(?:muslumanim|ateistim|aleviyim|hristiyanim)\b|我(?:是|信)(?:[^。]{0,4})(?:基督|佛教|伊斯兰|穆斯林|天主|道教|回民|佛|无神论)|\bя (?:\w+ )?(?:христиан|православ|мусульман|еврей|еврейка|иудей|атеист|католи|буддист|верующ)\w*|(?:انا|أنا) (?:مسلم|مسيحي|شيعي|سني|ملحد|يهودي)|من (?:مسلمان|مسیحی|شیعه|سنی|بهایی|بی‌?دین)",
    ),
    "politics": (
        _POLITICS_EN,
        r"\bich (?:wahle|bin mitglied (?:der|bei|in der)|bin in der|unterstutze die) (?:\w+ )?(?:partei|afd|cdu|csu|spd|fdp|grunen?|linke|bsw)\b|\b(?:votez (?:cu|pentru)|am votat (?:cu|pentru)|sunt membru (?:in|al)|membru de partid|sunt (?:de stanga|de dreapta|comunist|socialist|liberal))\b|\bje (?:vote|milite|suis (?:de gauche|de droite|socialiste|communiste|membre du parti))\b|\b(?:voto (?:a|al|por|per|em|no)|milito (?:en|no|na|nel)|soy (?:de izquierdas?|de derechas?|socialista|comunista)|sou (?:de esquerda|de direita|filiado)|sono (?:di sinistra|di destra|comunista|iscritto al partito))\b"
        r"|\bik stem (?:op|altijd)\b|\b(?:glosuje na|jestem w partii)\b|我(?:是)?(?:支持|加入|投票给)[^。]{0,6}党|我是[^。]{0,3}党员|\bя (?:голосую|голосовал\w*|состою в партии|член партии|коммунист|либерал)\b",
    ),
    "union": (
        _UNION_EN,
        r"\b(?:gewerkschaft(?:er|erin|s?mitglied|lich)?|betriebsrat\w*|syndique\w*|syndicat|greviste|sindicat\w*|sindacat\w*|sindacalist\w*|vakbond\w*|vakbondslid|zwiazku zawodow\w*|zwiazkowiec|szakszervezet\w*|sendika\w*|профсоюз\w*)\b|工会|労働組合|노조",
    ),
    "sexual_life": (
        _SEXUAL_EN,
        r"\b(?:ich bin|sunt|je suis|soy|sou|sono|ik ben|jestem) (?:\w+ )?(?:schwul|lesbisch|bisexuell|homosexuell|asexuell|transgender|trans|queer|gay|lesbian\w*|bisexual\w*|homosexual\w*|heterosexual\w*|homosexuel\w*|bisexuel\w*|lesbienne|lesbic\w*|bisessual\w*|omosessual\w*|transexual\w*|transessual\w*|gej\w*|lesbijk\w*|lesbisch|homo)\b|我是(?:同性恋|双性恋|同志|跨性别)|\bя (?:гей|лесбиянка|бисексуал\w*|трансгендер\w*)",
    ),
    "biometrics": (_BIOMETRICS,),
    "criminal_record": (_CRIMINAL,),
    "origin": (_ORIGIN,),
}
CATEGORIES: Final = frozenset(_TABLE)

_PATTERNS: Final = {
    category: re.compile(without_accents("|".join(parts))) for category, parts in _TABLE.items()
}
# A trade that deals with the subject. It excuses a mention, not "I have" or "I am".
_TRADE = re.compile(
    r"\b(?:work(?:s|ed|ing)? (?:on|in|for|at|with|as)|develop\w*|build\w*|design\w*|maintain\w*|research\w*|study|studying|studied|teach\w*|cover|write about|sell\w*|journalist|reporter|nurse|doctor|physician|surgeon|engineer|lawyer|attorney|software|app|apps|startup|company|clients?|product|platform|charity|volunteer\w*|thesis|phd|historian|priest by|analyst|consultant|therapist at|scientist"
    r"|arbeite|entwickl\w+|studier\w+|forsch\w+|lucrez|dezvolt|predau|studiez|travaille|developpe|etudie|trabajo|desarroll\w+|estudio|trabalho|desenvolvo|lavoro|sviluppo|werk als)\b|工作|开发|研究|работаю|изучаю|اعمل|کار می"
)
_PERSONAL = re.compile(
    r"\b(?:i have|i've|i suffer|diagnosed|i am (?!an? (?:\w+ )?(?:journalist|nurse|doctor|engineer|developer|researcher|teacher|consultant|analyst|scientist|writer|lawyer))|i'm (?!an? )|i was|ich (?:habe|bin)|am (?:un|o)\b|sunt|j'ai|je suis|tengo|soy|tenho|sou|ho\b|sono|my (?:wife|husband|son|daughter|mother|father|salary|income|faith|diagnosis|illness))"
)


def categories(folded: str, blocked: AbstractSet[str]) -> set[str]:
    """The blocked categories that a fact falls into. Folded text without accents."""
    found = {name for name in blocked & CATEGORIES if _PATTERNS[name].search(folded)}
    if found and _TRADE.search(folded) and not _PERSONAL.search(folded):
        return found & {"address", "biometrics"}
    return found
