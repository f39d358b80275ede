"""How people speak of special categories: the phrases of `sensitive`, mostly in English.

Each is a statement about a person ("I have", "my son is"), for folded text without accents.
"""

# ruff: noqa: RUF001 - words and marks of other scripts look like Latin ones by nature

from typing import Final

_HAVE: Final = (
    r"(?:i have|i've|i had|i've had|i got|has|have|had|suffer\w* (?:from|with)|living with"
    r"|live with|lives with|diagnosed with|diagnosis of"
    r"|because of|due to|my|treated for|recovering from|recovered from|struggl\w+ with|battling"
    r"|since|with)"
)
_CONDITION: Final = (
    r"(?:\w+ )?(?:cancer|tumou?rs?|leuk(?:a)?emia|lymphoma|diabet\w+|asthma\w*|epilep\w+"
    r"|seizures?|migraines?|arthritis|hypertension|high blood pressure|heart (?:disease|condition"
    r"|attack|failure)|stroke|hiv|aids|hepatitis|tuberculosis"
    r"|covid|depress(?:ion|ed|ive)|anxiety(?: disorder)?|bipolar|schizophren\w+|adhd|autis\w+"
    r"|asperger\w*|ptsd|ocd|burn-?out|panic attacks?|eating disorder|anorexi\w+|bulimi\w+"
    r"|addiction|alcoholi\w+|dementia|alzheimer\w*|parkinson\w*"
    r"|multiple sclerosis|crohn\w*|ibs|colitis|celiac|coeliac|thyroid|fibromyalgia|endometriosis"
    r"|psoriasis|eczema|lupus|anemia|anaemia|insomnia|infertil\w+|miscarriage|chronic (?:pain"
    r"|illness|fatigue|disease)|disabilit\w+|disabled|paralys\w+"
    r"|allerg\w+ to (?:penicillin|medic\w+|bee\w*|wasp\w*)|std|sti|syphilis|gonorrh\w+|herpes"
    r"|kidney (?:disease|failure)|dyslexi\w+|stutter|ulcers?|hernia|lyme|sclerosis|down syndrome)"
)
HEALTH_EN: Final = (
    rf"\b{_HAVE} (?:an? |the |my |mild |severe |chronic |bad |type \d |stage \w+ |some |really "
    rf"|been |recently |also |a history of )*{_CONDITION}\b"
    r"|\b(?:i am|i'm|is|are|am|was) (?:an? |now |also |clinically |severely |legally "
    r"|partially )*(?:diabetic|epileptic|asthmatic|autistic|bipolar|hiv[ -]positive|depressed"
    r"|disabled|(?:blind|deaf)(?! (?:to|spot|date))|paraly[sz]ed|pregnant|infertile|anorexic"
    r"|alcoholic|schizophrenic|immunocompromised|an addict|addicted to (?:alcohol|drugs|heroin"
    r"|cocaine|gambling|opioids|pain ?killers|porn\w*|nicotine|pills|meth\w*)|hard of hearing"
    r"|dyslexic|terminally ill|chronically ill|in remission|in rehab)\b"
    r"|\bhiv[ -]?(?:positive|\+)|\b(?:wheelchair|pacemaker|insulin|chemo\w*|dialysis"
    r"|antidepressants?|ssris?|lithium|methadone|prozac|zoloft|ritalin|adderall|xanax|metformin"
    r"|prosthe\w+|hearing aids?|colostomy|inhaler)\b"
    r"|\b(?:i|my \w+|she|he) (?:\w+ )?(?:see|sees|seeing|visit|go to|goes to|going to|am in"
    r"|is in) (?:a |an |my |the |to )*(?:therapist|psychiatrist|psychologist|therapy|rehab"
    r"|oncologist|counsel\w+)\b"
    r"|\b(?:had|having|have|get|getting|after|scheduled for) (?:an? |my |the )?(?:abortion"
    r"|miscarriage|vasectomy|hysterectomy|mastectomy|surgery|transplant|heart attack|stroke"
    r"|nervous breakdown|operation on)\b"
    r"|\bi take (?:\w+ )?(?:pills|medication|meds|tablets|drugs) (?:for|against)\b"
    r"|\bmy (?:medication|meds|diagnosis|illness|disease|disability|blood (?:type|pressure|sugar)"
    r"|psychiatrist|therapist|oncologist|chemo\w*|prescription)\b|\bsuicid\w+|\bself-?harm\w*"
)
RELIGION_EN: Final = (
    r"\b(?:i am|i'm|i was|we are|we're|as|being|(?<!name )is|are|became|raised|user is"
    r"|practi[sc]ing|devout"
    r"|observant|born|turned) (?:an? |now |also |very |raised |a practi[sc]ing |a devout "
    r"|an observant |not |strictly |proud |proudly )*"
    r"(?:christian|catholic|protestant|orthodox (?:christian|jew\w*)|evangelical|baptist|lutheran"
    r"|methodist|pentecostal|mormon|adventist|jehovah'?s witness\w*|muslim|sunni|shia|shi'ite|jew"
    r"|jewish|hindu|buddhist|sikh|atheist|agnostic|pagan|wiccan|scientologist|bahai|jain"
    r"|religious|quaker|zoroastrian)s?\b"
    r"|\b(?:convert\w* to|practi[sc]e|believe in|follow) (?:islam|christianity|judaism|hinduism"
    r"|buddhism|catholicism|sikhism|god|allah|jesus|orthodoxy)\b|\b(?:go(?:es)? to"
    r"|attend) (?:the |a |my )?(?:\w+ )?(?:mass|church|mosque|synagogue|temple|gurdwara"
    r"|sunday service)\b"
    r"|\bi (?:\w+ )?(?:pray|fast (?:during|for)|observe (?:ramadan|lent|shabbat|sabbath)"
    r"|keep (?:kosher|halal|the sabbath))\b|\bmy (?:faith|religion|religious|church|mosque|parish"
    r"|rabbi|imam|priest|pastor|baptism)\b"
)
POLITICS_EN: Final = (
    r"\bi(?:'ve| have|'ll| will|'m| am)? (?:\w+ )?(?:vote[ds]?|voting|campaign\w*|canvass\w*"
    r"|donate[ds]?|donating) (?:for|to) (?:the |a )?(?!charity|open)(?![^.]*\b(?:over|instead"
    r"|features?)\b)\w+"
    r"|\b(?:i am|i'm|member of|supporter of|activist (?:for|in)|joined|support|belong to"
    r"|card-carrying) (?:an? |the |of the |very |a lifelong |a registered "
    r"|staunch )*(?:\w+ ){0,2}(?:democrats?|republicans?|socialist|communist|conservatives?"
    r"|labour|tory|liberal|libertarian|anarchist|marxist|green party|left-?wing(?:er)?"
    r"|right-?wing(?:er)?|nationalist|fascist|leftist|progressive|trump|biden|afd|cdu|spd"
    r"|party)\b(?! (?:planner|app|supplies))"
    r"|\bmy (?:political|politics|party membership)\b|\bpolitically i\b"
)
UNION_EN: Final = (
    r"\b(?:trade|labou?r|workers'?|teachers'?|my|our"
    r"|the) union(?:'s)? (?:member\w*|rep\w*|card|dues|steward|organi[sz]er|branch)|\b(?:member|rep"
    r"|steward|organi[sz]er) (?:of|in|for|at) (?:a |the |my |our )?(?:\w+ )?(?:trade "
    r"|labou?r )?union\b|\b(?:joined|in|belong to|pay dues to) (?:a|the|my) (?:\w+ )?(?:trade "
    r"|labou?r )?union\b|\bunioni[sz]ed\b|\bon strike\b|\b(?:unite|unison|ver\.?di"
    r"|ig metall|ugt|ccoo"
    r"|cgt|cgil|teamsters|afl-cio) (?:member|rep)"
)
SEXUAL_EN: Final = (
    r"\b(?:i am|i'm|i came out as|came out as|is|are|as|being|identify as|openly) (?:an? |also "
    r"|openly |not |secretly |actually |a proud )*(?:gay|lesbian|bi-?sexual|bi|straight(?= (?:man"
    r"|woman|guy|male|female|and)|[.,!]|$)|hetero\w*|homosexual|asexual|pansexual|queer"
    r"|trans(?:gender|sexual)?|non-?binary|polyamorous|a virgin|lgbtq?\w*)\b(?! (?:forward|away"
    r"|line|to the point|answers?))"
    r"|\bmy (?:sex life|sexual\w*|sexual orientation|gender identity|transition|fetish|kinks?"
    r"|affair|lover)\b|\b(?:having|have|had) (?:an affair|a one-night stand|unprotected sex"
    r"|sex with)\b|\bmy (?:same-sex|gay) \w+|\bhormone therapy\b"
)
FINANCES_EN: Final = (
    r"\b(?:i|we|she|he|my \w+) (?:\w+ )?(?:earn|earns|make|makes|made|take home|get paid|am paid"
    r"|is paid)\b.{0,20}(?:[$€£¥]\s?\d|\b\d[\d.,]*\s?(?:k\b|thousand|grand|million|eur\w*|usd"
    r"|dollars?|pounds?|lei|ron|euros?|gbp|chf|a (?:year|month)|per (?:year|month|hour)|an hour"
    r"|net|gross))"
    r"|\bmy (?:\w+ )?(?:salary|income|wage|pay|net worth|savings|debts?|mortgage|credit score"
    r"|pension|bonus|overdraft|bank balance|loan|rent|inheritance|take-home)\b.{0,20}(?:\b(?:is"
    r"|are|was|of|=|:|stands)\b|[$€£]).{0,20}\d"
    r"|\bi(?:'m| am)? (?:\w+ )?(?:owe|in debt|bankrupt|behind on (?:my )?(?:rent|mortgage"
    r"|payments)|on (?:welfare|benefits|food stamps)|filed for bankruptcy|broke\b)|\b(?:have|has"
    r"|had|with) (?:a |an |about |around |over )?[$€£]?\s?\d[\d.,]*\s?(?:k|million|thousand|eur"
    r"|usd|lei|euros?|dollars?|pounds?)?\s?(?:\w+ )?(?:in|of) (?:(?:my |the "
    r"|a )?(?:\w+ )?(?:savings|debts?|bank|student loans?|credit card debt|loans?|mortgage|crypto"
    r"|bitcoin|stocks|shares))"
    r"|\bcredit score\b.{0,12}\d{3}|\bmy bank (?:account|balance)\b"
)
_STREET_EN: Final = (
    r"(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|court|ct"
    r"|close|crescent|square|sq|terrace|way|place|pl|gardens|row|hill|mews|highway|parkway)"
)
ADDRESS: Final = (
    rf"\b\d{{1,5}}[a-z]?,? (?:\w+[.']? ){{1,4}}{_STREET_EN}\b|\b(?:apartment|apt|flat|unit|suite"
    rf"|house)\.? (?:no\.? ?|number |#)?\d+\w?\b.{{0,40}}\b(?:{_STREET_EN}|floor|building"
    rf"|block)\b|(?<![\d.])[-+]?\d{{1,2}}\.\d{{3,}}\s?[,;/ ]\s?[-+]?\d{{1,3}}\.\d{{3,}}"
    rf"|\bp\.?o\.? box \d+"
    r"|\b(?:my|our|home|postal|street|delivery) address(?:es)? (?:is|are|:)|\b(?:live|lives|house"
    r"|home|reside|flat|apartment) (?:is )?(?:at|on) (?:number )?\d+\w? \w+|\bmy (?:post ?code"
    r"|zip(?: code)?) is\b"
    r"|\b\w*(?:strasse|str\.|gasse|weg|platz|allee|ufer|damm|ring)\s+\d{1,4}\s?[a-z]?\b"
    r"|\b(?:strada|str\.|bulevardul|bd\.|aleea|calea|soseaua|piata|intrarea)\s.{1,40}\b(?:nr\.?"
    r"|numarul|bloc\w*|bl\.|scara|sc\.|ap\.|apartament\w*)?\s?\d+|\b\d{1,4},? (?:bis "
    r"|ter )?(?:rue|avenue|boulevard|impasse|allee|place|chemin|quai) \w+"
    r"|\b(?:calle|avenida|avda\.?|plaza|paseo|rua|travessa|praca|via|viale|piazza|corso"
    r"|largo) (?:\w+ ){1,4},? ?(?:n\.?º? ?|numero |no\.? )?\d+|\b\w+(?:straat|laan|weg|gracht"
    r"|plein|kade) \d+|\b(?:ul\.|ulica|aleja) \w+ \d+|\b\w+ (?:utca|ut|ter) \d+|(?:улица|ул\."
    r"|проспект|пр\.) .{1,30}\d+|[路街巷弄][^，。]{0,6}\d+\s?[号號]|\d+\s?[号號][楼樓]"
    r"|(?:番地|丁目)"
)
BIOMETRICS: Final = (
    r"\b(?:my|his|her|our|user'?s) (?:\w+ )?(?:finger ?prints?|iris|retina\w*|face ?(?:id|print"
    r"|scan|template)|voice ?print|palm ?(?:print|vein)|dna|genome|genetic\w*|gait"
    r"|biometric\w*)\b|\b(?:finger ?print|iris|retina|face|voice|palm|biometric) (?:template|scan"
    r"|hash|data|vector|embedding|minutiae)\b.{0,30}\b(?:is|are|stored|fmr|mine|my)\b|\b23andme\b"
    r"|\b(?:mein\w* fingerabdruck|amprenta mea|amprentele mele|mon empreinte|mi huella"
    r"|minha impressao digital|la mia impronta)|我的指纹|отпечат\w+ мо|بصمت"
)
_CHILD_EN: Final = (
    r"(?:son|daughter|child|kid|kids|children|boy|girl|toddler|baby|stepson"
    r"|stepdaughter|grandson|granddaughter|nephew|niece|twins?)"
)
MINORS: Final = (
    rf"\b(?:my|our) (?:\w+ ){{0,2}}{_CHILD_EN}\b.{{0,60}}\b(?:school|primary|kindergarten|nursery"
    rf"|daycare|creche|grade|class|teacher|picked up|born (?:on|in)|birthday|aged?|years? old"
    rf"|year-old|attends?|goes to|bullied|phone|lives with|custody|is \d{{1,2}})\b|\b(?:my"
    rf"|our) (?:\d{{1,2}}[- ]years?[- ]old|minor|teenage) |\b(?:my"
    rf"|our) {_CHILD_EN},? (?:\w+, ?)?(?:\d{{1,2}}|[a-z]+, \d{{1,2}})\b"
    r"|\bi(?:'m| am) (?:only )?(?:[5-9]|1[0-7])(?: years? old|,| and|\.|$)|\b(?:mein\w* (?:sohn"
    r"|tochter|kind)|fiul meu|fiica mea|copilul (?:meu|nostru)|baiatul meu|fetita mea|mon fils"
    r"|ma fille|mon enfant|mi hij[oa]|meu filho|minha filha|mio figlio|mia figlia|mijn (?:zoon"
    r"|dochter))\b.{0,60}\b(?:schule|grundschule|klasse|kita|kindergarten|jahre alt|scoala"
    r"|gradinit\w+|clasa|ani|ecole|maternelle|classe|ans|escuela|colegio|escola|scuola|clase|anos"
    r"|anni|school|jaar|\d{1,2})\b"
    r"|我(?:的)?(?:儿子|女儿|孩子)[^。]{0,15}(?:岁|学校|小学|幼儿园|年级|班)|мо[йия]\w* (?:сын|дочь"
    r"|реб[её]нок)\w* .{0,30}(?:школ|класс|лет|сад)"
)
_KIN_EN: Final = (
    r"(?:wife|husband|partner|spouse|mother|mom|mum|father|dad|sister|brother|son"
    r"|daughter|child|kid|baby|aunt|uncle|cousin|grand\w+|friend|boss|manager|colleague|coworker"
    r"|girlfriend|boyfriend|neighbou?r|ex|roommate|mother-in-law|father-in-law|parents|client"
    r"|employee)"
)
THIRD_HEALTH: Final = (
    rf"\b(?:my|our|his|her) (?:\w+ )?{_KIN_EN}(?:'s)?\b.{{0,40}}\b(?:{_CONDITION}|pregnant"
    rf"|surgery|therapy|hospital\w*|in rehab|ill|sick|disease|dying|depressed|diabetic|autistic"
    rf"|wheelchair|medication|diagnos\w+|chemo\w*)\b"
    r"|\b(?:mein\w*|unser\w*) (?:frau|mann|mutter|vater|bruder|schwester|chef\w*|kolleg\w*"
    r"|freund\w*)\b.{0,40}\b(?:krebs|depress\w*|krank\w*|diabet\w*|schwanger|demenz|alzheimer"
    r"|klinik|therapie|krankenhaus)|\b(?:sotia|sotul|mama|tata|fratele|sora|seful|colegul|colega"
    r"|prietenul)\b.{0,40}\b(?:cancer|depresi\w*|boln\w*|diabet\w*|insarcinat\w*|dementa|spital"
    r"|alcoolic\w*)"
    r"|\b(?:ma femme|mon mari|ma mere|mon pere|mon frere|ma soeur|mi mujer|mi marido|mi madre"
    r"|mi padre|mi hermano|mi hermana|mia moglie|mio marito|mia madre|mio padre|minha mae"
    r"|meu pai)\b.{0,40}\b(?:cancer|cancro|tumore|depres\w*|depress\w*|malad\w*|enferm\w*"
    r"|malat\w*|doente|diabet\w*|enceinte|embarazad\w*|incinta|gravida|alzheimer)"
    r"|我(?:的)?(?:妻子|老婆"
    r"|丈夫|老公|妈妈|母亲|爸爸|父亲|哥哥|姐姐|弟弟|妹妹|老板|同事|朋友)[^。]{0,12}(?:癌"
    r"|病|抑郁|怀孕|手术|糖尿)"
)
CRIMINAL: Final = (
    r"\b(?:i was|i've been|i have been|i am|i'm|he was|she was|was|got"
    r"|been) (?:\w+ )?(?:convicted|arrested|jailed|imprisoned|sentenced|on (?:parole|probation)"
    r"|charged with|indicted|found guilty|in (?:prison|jail))\b|\b(?:my|a|have a"
    r"|with a) (?:criminal record|conviction|felony|prison sentence|dui)\b|\b(?:served|spent"
    r"|did) (?:\w+ ){1,3}(?:in (?:prison|jail)|behind bars)\b"
    r"|\b(?:vorbestraft|verurteilt wegen|im gefangnis|condamnat\w* (?:pentru|la)|cazier"
    r"|inchisoare|j'ai ete condamne\w*|casier judiciaire|en prison|fui condenad\w*"
    r"|antecedentes penales|en la carcel|fui condenado|preso por|sono stato condannato|in carcere"
    r"|fedina penale|veroordeeld)\b|坐过牢|被判|犯罪记录|судим(?:ость)?\b|был[аи]? осужд\w+"
)
ORIGIN: Final = (
    r"\b(?:undocumented|illegal immigrant|asylum seeker|visa (?:ran out|expired|was denied"
    r"|overstay\w*)|overstay\w* my visa|refugee status|my (?:ethnicity|race|skin colou?r"
    r"|immigration status|tribe|caste)|deport(?:ed|ation))\b|\bi(?:'m| am) (?:an? |of |half "
    r"|part |ethnically |originally )*(?:black|white|african[- ]american|roma(?: origin"
    r"| ethnicity)?|gypsy|latin[oax]|hispanic|indigenous|biracial|mixed[- ]race|asian descent"
    r"|of colou?r|kurdish|uyghur|dalit)\b(?! (?:belt|hat|box))"
    r"|\b(?:abgeschobene?r?|asylbewerber\w*|ohne papiere|aufenthaltstitel abgelaufen|sans-papiers"
    r"|sin papeles|indocumentad\w+|clandestin\w+|solicitante de asilo|de etnie \w+|sunt rom\b"
    r"|sunt (?:de etnie|tigan)\w*)\b|没有合法身份|非法移民"
)
