"""The table of patterns: one line says how a thing is stated, what it is about and how it is kept.

The same lines read what users say ("I live in Lisbon") and stored texts ("Lives in Lisbon."), which
is what lets the judge compare facts from anywhere. The notation:

`I`        the user or the user's team as the one who acts; optional in stored texts
`[live]`   the verb in any present form; `[be]` takes "I'm", "we are", "is" and the like
           (stored texts may leave it out, unless it is `[be!]`)
`{place}`  a slot, read by the function of that name in `slots.READERS`; `{old}` is what ended
`my`       "my", "our" or, in stored texts, nothing

The first line that fits wins, so special ones stand above general ones.
"""
# ruff: noqa: E501 - one line a pattern: a wrapped table can't be scanned

from dataclasses import dataclass

from app.llm import Kind
from app.rules.lexicon import ATTRIBUTES, PETS, RELATIVES

ANY_TOOL = "@tool"
"""A subject that is the category of the tool in the slot."""


INTRODUCED = "@introduced"
"""The name, if the words stand at the start of a turn ("Hi, this is Dana")."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `also` are further (subject, kind, text) from the same words.

    `likes=False` marks the opposite of what the subject usually says ("dislikes"). `weak` means
    that another value may well hold beside this one, until the words speak of a change.
    `manner` names a relation that holds with one thing at a time ("is written in").
    `bare` lines count as said by the user without "I", "we" or "my" in front.
    """

    pattern: str
    subject: str
    kind: Kind
    text: str
    also: tuple[tuple[str, Kind, str], ...] = ()
    likes: bool = True
    weak: bool = False
    closes: bool = False
    changes: bool = False
    bare: bool = False
    manner: str = ""


_DEV = r"(?:learning|teaching myself|studying|picking up|trying to learn|getting into)"
_MAKE = r"(?:working on|building|developing|writing|making|creating)"
_WORK = (
    r"(?:an?|my|our) (?:\w+[ -]){0,4}(?:app|thesis|novel|project|startup|game|book|paper|"
    r"dissertation|website|course|library|platform|product|memoir|album|podcast|blog|plugin|tool|"
    r"service|documentary|screenplay|extension|side project|band|shop|store)\b"
)
_HABIT = (
    "[use]|[write]|[start]|[test]|[ignore]|[book]|[fly]|[travel]|[sit]|[order]|[wear]|[work]|"
    "[take]|[buy]|[cook]|[train]|[read]|[pay]|[deploy]|[commit]|[squash]|[document]|[shop]|"
    "[cycle]|[carry]|[stay]|[listen]|[watch]|[sleep]|[walk]|[bring]|[pack]"
)
_ROUND = (
    r"(?:deploys?|deployments?|releases?|stand-?ups?|retros?|sprints?|code reviews?|maintenance)"
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun|week)day"
_OFTEN = r"(?:really |absolutely |also |always |just |do |usually |generally |much |strongly )*"
_BY = r"(?:by|before|this year|next year|some ?day|one day|eventually|within|in (?:the )?(?:spring|summer|autumn|fall|winter|20\d\d|january|february|march|april|may|june|july|august|september|october|november|december))"

ROWS: tuple[Row, ...] = (
    # Who the user is
    Row(r"my (?:full |first )?name(?: is|'s) (?:actually|really|in fact) {Name}", "name", "profile", "Name is {Name}."),
    Row(r"my (?:full |first |user )?name(?: is|'s| was always) {name}", "name", "profile", "Name is {name}."),
    Row(r"I [be] called {name}", "name", "profile", "Name is {name}."),
    Row(r"(?:from now on,? |please |just |you can |everyone |everybody |people |friends |they )*calls? me {name}", "preferred name", "profile", "Goes by {name}.", bare=True),
    Row(r"I (?:[prefer]|[like]|[want]|would (?:like|prefer)) (?:to be called|being called) {name}", "preferred name", "profile", "Goes by {name}."),
    Row(r"I [go] by {name}", "preferred name", "profile", "Goes by {name}."),
    Row(r"I [be!] {Name}, {Role} (?:at|for|with|from) {Org}", "name", "profile", "Name is {Name}.", also=(("employer", "profile", "Works at {Org}."), ("role", "profile", "Is {Role}."))),
    Row(r"I [be!] {Name}, {Role},? (?:currently |now )?(?:based|living) in {Place}", "name", "profile", "Name is {Name}.", also=(("home city", "profile", "Lives in {Place}."), ("role", "profile", "Is {Role}."))),
    Row(r"I [be!] {Name}, {Role}", "name", "profile", "Name is {Name}.", also=(("role", "profile", "Is {Role}."),)),
    Row(r"I [be!] {Name}", "name", "profile", "Name is {Name}."),
    Row(r"this is {Name}", INTRODUCED, "profile", "Name is {Name}.", bare=True),
    Row(r"{Name} here", INTRODUCED, "profile", "Name is {Name}.", bare=True),
    Row(r"my pronouns are {rest}", "pronouns", "profile", "Pronouns are {rest}."),
    Row(r"I [be] (?P<rest>\d\d)(?: years old| yo\b|$)", "age", "profile", "Is {rest} years old."),
    Row(r"I (?:just )?turned (?P<rest>\d\d)\b", "age", "profile", "Is {rest} years old."),
    Row(r"I (?:[be]|became) (?P<rest>an? (?:proud |new |single )?(?:dad|mum|mom|mother|father|parent|grandparent|grandma|grandpa))\b", "family", "profile", "Is {rest}."),
    Row(r"I [be] (?:in|on) (?:the )?(?P<rest>(?-i:[A-Z])\w+(?: (?-i:[A-Z])\w+)?) time(?: ?zone)?", "time zone", "profile", "Time zone is {rest}."),
    Row(r"I [be] (?P<rest>married|divorced|single|engaged|widowed)\b(?! (?:out|thread|core|file))", "marital status", "profile", "Is {rest}."),
    Row(r"I [be] (?P<rest>left[- ]handed|right[- ]handed|an? early bird|a night owl|(?:not )?a morning person|colou?r-?blind)", "habits", "profile", "Is {rest}."),
    Row(r"I (?:was|were) born in {place}", "origin", "profile", "Was born in {place}."),
    Row(r"(?:was )?born in {place}", "origin", "profile", "Was born in {place}."),
    Row(r"I (?:come|comes|[be]) (?:originally )?from {Place}", "origin", "profile", "Is from {Place}."),
    Row(r"I (?P<how>grew up|studied) in {place}", "background", "profile", "{How} in {place}."),
    # Where the user lives
    Row(r"I [live] (?:over |out |up |down |right )?(?:in|near|outside(?: of)?|just outside(?: of)?) {place}", "home city", "profile", "Lives in {place}."),
    Row(r"I [be] (?:currently |now |mostly )?(?:based|living|located|residing) (?:in|near|out of|over in) {place}", "home city", "profile", "Lives in {place}."),
    Row(r"I have (?:been (?:living|based)|settled(?: down)?) in {place}", "home city", "profile", "Lives in {place}."),
    Row(r"I have lived in {place} (?:since|for|all my|my whole) .*", "home city", "profile", "Lives in {place}."),
    Row(r"(?:i|user) (?:(?:have|has|just|recently) )*moved(?: over)? to {Org} as {Role}", "employer", "profile", "Works at {Org}.", also=(("role", "profile", "Is {Role}."),), changes=True),
    Row(r"I [be] (?:now )?back in {City} (?:now|again|for good|permanently)(?: now)?[.!]?$", "home city", "profile", "Lives in {City}.", changes=True),
    Row(r"based in {place}", "home city", "profile", "Lives in {place}."),
    Row(r"my (?:home (?:city|town)|city|current city) is {place}", "home city", "profile", "Lives in {place}."),
    Row(r"(?:i|user)(?: have| has| just| recently)* (?:moved|relocated) (?:here |over |back )?from {oldplace} to {Place}", "home city", "profile", "Moved from {oldplace} to {Place}.", changes=True),
    Row(r"we (?:(?:have|just|recently|finally) )*(?:moved|relocated) (?:here |over |back |house )?(?:from .{2,30} )?to {City}", "home city", "profile", "Lives in {City}.", changes=True),
    Row(r"(?:(?:i|user) )?(?:(?:have|has|just|recently|finally) )*(?:moved|relocated) (?:here |over |back |house )?(?:to|into) {Place}", "home city", "profile", "Lives in {Place}.", changes=True),
    Row(r"moved from {oldplace} to {Place}", "home city", "profile", "Moved from {oldplace} to {Place}.", changes=True),
    Row(r"my (?:family and i|wife and i|husband and i|partner and i) (?:live in|moved to) {place}", "home city", "profile", "Lives in {place}."),
    # Work
    Row(r"I [work] (?:full-?time |part-?time |remotely )?(?:at|for|with) {org} as {Role}", "employer", "profile", "Works at {org}.", also=(("role", "profile", "Is {Role}."),)),
    Row(r"I [work] as {Role} (?:at|for|with) {org}", "employer", "profile", "Works at {org}.", also=(("role", "profile", "Is {Role}."),)),
    Row(r"I [be] {role} at {Maker}", "employer", "profile", "Works at {Maker}.", also=(("role", "profile", "Is {role}."),)),
    Row(r"I [be] {role} (?:at|for|with) {Org}", "employer", "profile", "Works at {Org}.", also=(("role", "profile", "Is {role}."),)),
    Row(r"(?:i|user)?(?: have| has| just| recently)* ?(?:joined|started(?: work| working)?(?: at| with)|got hired (?:at|by)|got a job at|accepted an offer from|(?:started|have|has|got) a new job at|moved over to|switched(?: jobs)? to|now work at) {Org} as {Role}", "employer", "profile", "Works at {Org}.", also=(("role", "profile", "Is {Role}."),), changes=True),
    Row(r"(?:i|user)? ?(?:left|quit) {oldorg} (?:for|and (?:joined|started at|now work (?:at|for))) {Org}", "employer", "profile", "Works at {Org}.", changes=True),
    Row(r"I (?P<how>[head]|[run]|[lead]|[manage]|[handle]|[do]) (?P<rest>(?:up )?[\w &-]{2,40}?) (?:at|for) {Org}", "employer", "profile", "Works at {Org}.", also=(("work", "profile", "{How} {rest}."),)),
    Row(r"I [work] (?:full-?time |part-?time |remotely )?(?:at|for) {org}", "employer", "profile", "Works at {org}."),
    Row(r"I [be] (?:now |currently )?(?:working|employed) (?:at|for|by|with) {Org}", "employer", "profile", "Works at {Org}."),
    Row(r"I [be] (?:now )?(?:at|with) {Org} (?:(?:now )?as an? .*|these days)", "employer", "profile", "Works at {Org}.", changes=True),
    Row(r"(?:(?:i|user)(?: am| have| has)?)?(?: just| recently| now)* ?(?:joined|started(?: work| working)?(?: at| with)|got hired (?:at|by)|got a job at|accepted an offer from|(?:started|have|has|got) a new job at|switched jobs to) {Org}", "employer", "profile", "Works at {Org}.", changes=True),
    Row(r"(?:the )?(?:company|firm|place|startup|agency|shop) (?:i|we) work (?:for|at) is (?:called )?{org}", "employer", "profile", "Works at {org}.", bare=True),
    Row(r"my (?:new |current )?(?:employer|company|workplace) (?:is called|is now|is) {Org}", "employer", "profile", "Works at {Org}."),
    Row(r"I (?:quit|left|lost) (?:my|their) job", "employer", "profile", "Left their job.", closes=True),
    Row(r"I (?:quit|left) (?:my job at )?{Org}", "employer", "profile", "No longer works at {Org}.", closes=True),
    Row(r"(?:my (?:job|day job|role|job title|title|position|profession|occupation)|what I do) is {anyrole}", "role", "profile", "Role is {anyrole}."),
    Row(r"I [work] as (?!a team|usual|expected|intended|one|if|well|a charm|hard|long|much){anyrole}", "role", "profile", "Works as {anyrole}."),
    Row(r"I (?:have|has) been (?:working as )?{role} (?:for|since) .*", "role", "profile", "Is {role}."),
    Row(r"I (?:got|was|just got)(?: promoted to| hired as) {Role}", "role", "profile", "Is now {Role}.", changes=True),
    Row(r"I (?:became|become) {role}", "role", "profile", "Is {role}.", changes=True),
    Row(r"I [be] (?:now |currently |still )?(?:working as )?{role}", "role", "profile", "Is {role}."),
    Row(r"I [work] in (?P<rest>(?:[\w&-]+ ?){1,3})", "field of work", "profile", "Works in {rest}."),
    Row(r"I [be] (?P<rest>self-employed|retired|a freelancer|freelancing|unemployed|(?:a|still) (?:\w+ )?student)", "role", "profile", "Is {rest}."),
    Row(r"I [run] (?P<rest>(?:an?|my own|our own) .*)", "business", "profile", "Runs {rest}."),
    Row(r"I [report] to {Person}", "manager", "profile", "Manager is {Person}."),
    Row(r"my (?:new )?(?:manager|boss|line manager|supervisor) is (?:now |called |named )*{Person}", "manager", "profile", "Manager is {Person}."),
    # Languages and skill
    Row(r"I [speak] {lang}", "languages spoken", "profile", "Speaks {lang}."),
    Row(r"I [be] (?:fluent|native) in {lang}", "languages spoken", "profile", "Speaks {lang}."),
    Row(r"I [be] a native {lang} speaker", "native language", "profile", "Native language is {lang}."),
    Row(r"my (?:native|first) (?:language|tongue) is {lang}", "native language", "profile", "Native language is {lang}."),
    Row(r"my mother tongue is {lang}", "native language", "profile", "Native language is {lang}."),
    Row(r"I [be] (?:an? )?(?:\w+ )?(?P<rest>(?:beginner|newbie|expert|novice|pro) (?:at|in|with|to) .*)", "skill level", "profile", "Is a {rest}."),
    Row(r"I [be] (?:pretty |quite |fairly |very |rather |reasonably )*(?P<how>(?:advanced|proficient|experienced|rusty|competent|self-taught) (?:at|in|with|on)) {thing}", "skill level", "profile", "Is {how} {thing}."),
    Row(r"I [be] (?:quite |pretty |very |fairly |completely |totally |still )?new to {thing}", "skill level", "profile", "Is new to {thing}."),
    Row(r"I (?:have|has)(?: got)? (?P<rest>(?:\w+|\d+\+?) years (?:of )?(?:experience )?(?:of |with |in )?.*)", "experience", "profile", "Has {rest}."),
    Row(r"I [have] (?P<rest>an? (?:phd|master'?s?|bachelor'?s?|degree|diploma|mba|background) (?:degree )?in .*)", "education", "profile", "Has {rest}."),
    # Goals and projects
    Row(r"I [be] (?:now |currently |back )*(?:working )?on (?P<rest>(?:the )?project (?-i:[A-Z0-9][\w-]*)|(?:the )?(?-i:[A-Z][\w-]*) project)(?: now)? instead of (?:project )?(?P<old>(?-i:[A-Z0-9])[\w-]*)", "current project", "goal", "Is now on {rest} instead of {old}.", changes=True),
    Row(r"I [be] (?:now |currently |back )*(?:working )?on (?P<rest>(?:the )?project (?-i:[A-Z0-9][\w-]*)|(?:the )?(?-i:[A-Z][\w-]*) project)", "current project", "goal", "Is on {rest}.", weak=True),
    Row(r"I (?:[work] on|switched to|moved to) (?P<rest>(?:the )?project (?-i:[A-Z0-9][\w-]*)|(?:the )?(?-i:[A-Z][\w-]*) project)", "current project", "goal", "Is on {rest}.", weak=True),
    Row(rf"I [be] (?:now |currently |also )*(?P<how>{_MAKE}) (?P<rest>{_WORK}.*)", "current project", "goal", "Is {how} {rest}.", weak=True),
    Row(r"I (?:have |has |just |recently )*(?:started|begun|took up|taken up) (?P<how>learning|studying) {thing}", "learning", "goal", "Is {how} {thing}."),
    Row(rf"I [be] (?:now |currently |also |still )*(?P<how>{_DEV}) {{thing}}", "learning", "goal", "Is {how} {thing}."),
    Row(r"(?:learning|training for|saving for) {thing}", "learning", "goal", "Is learning {thing}."),
    Row(r"I [be] (?:currently |also |still )*(?P<how>(?:training|studying|preparing|practi[sc]ing|saving(?: up)?|working towards|cramming)(?: for| towards)?) {thing}", "goals", "goal", "Is {how} {thing}."),
    Row(r"my (?:main |big |biggest |long-term |personal |ultimate |only )?(?:goal|aim|target|dream|new year's resolution)(?: (?:for|this) [\w ]{1,20})? is (?:to )?{rest}", "goals", "goal", "Goal is to {rest}."),
    Row(r"I [be] trying to (?P<rest>(?:learn|quit|lose|save|get better at|become|eat|cut down|stop|finish my) .*)", "goals", "goal", "Is trying to {rest}."),
    Row(rf"I (?:[want]|[hope]|[plan]|[aim]|would like|[intend]|[be] planning|[be] aiming|[be] going) to (?P<rest>(?!sell|buy|cancel|fix|book|send|return|order|submit|see|watch).* {_BY}\b.*)", "goals", "goal", "Wants to {rest}."),
    Row(r"I (?:[want]|would like) to (?P<rest>(?:learn|become|master|get (?:better|fit|fitter|promoted|certified)|improve my|lose|quit|save up|retire|write a (?:book|novel)|start (?:my own|a) (?:business|company)|run (?:a|my first|the) (?:half[- ]?)?marathon|buy a (?:house|home|flat))\b.*)", "goals", "goal", "Wants to {rest}."),
    # Stack and tools
    Row(r"I (?:have |has |just |recently |finally |fully |also )*(?:migrated|switched|changed|went|converted|upgraded|transitioned|ended up (?:moving|migrating|switching)|finished (?:moving|migrating)) (?:\w+ ){0,4}?from {old} (?:over )?to {tools}", ANY_TOOL, "preference", "Switched from {old} to {tools}.", changes=True),
    Row(r"I (?:have |has |just |recently |finally |fully |also )*moved (?:our|my|the|all|everything|every) ?(?:[\w-]+ ){0,3}?from {old} (?:over )?to {tools}", ANY_TOOL, "preference", "Switched from {old} to {tools}.", changes=True),
    Row(r"I (?:have |has |just |recently |finally |fully |also )*moved (?:\w+ ){0,4}?from {old} (?:over )?to {known}", ANY_TOOL, "preference", "Switched from {old} to {known}.", changes=True),
    Row(r"I (?:have |has |just |recently |finally |fully |also )*moved (?:\w+ ){0,4}?from {oldknown} (?:over )?to {tools}", ANY_TOOL, "preference", "Switched from {oldknown} to {tools}.", changes=True),
    Row(r"(?:migrated|switched|moved) from {old} to {tools}", ANY_TOOL, "preference", "Switched from {old} to {tools}.", changes=True, bare=True),
    Row(r"I (?:have |has |just |recently |finally )*(?:replaced|swapped(?: out)?|ditched|dropped) {old} (?:with|for|in favou?r of|by) {tools}", ANY_TOOL, "preference", "Switched from {old} to {tools}.", changes=True),
    Row(r"I (?:now )?[use] {tools} instead of {old}", ANY_TOOL, "preference", "Switched from {old} to {tools}.", changes=True),
    Row(r"I (?:have |has |just |recently |finally |fully |now )*(?:migrated|switched|moved|changed|converted)(?: \w+){0,3}? (?:over )?to {known}", ANY_TOOL, "preference", "Switched to {known}.", changes=True),
    Row(r"we (?:have |just |recently |finally |fully |now )*(?:migrated|switched)(?: \w+){0,3}? (?:over )?to {tools}", ANY_TOOL, "preference", "Switched to {tools}.", changes=True),
    Row(r"(?:migrated|switched) to {tools}", ANY_TOOL, "preference", "Switched to {tools}.", changes=True),
    Row(r"my (?:main |primary |production |current )?(?:database|db|data ?store) (?:is|is now|runs on) {tools}", ANY_TOOL, "preference", "Database is {tools}."),
    Row(r"my (?:tech )?stack (?:is|consists of|includes) {tools}", ANY_TOOL, "preference", "Uses {tools}.", weak=True),
    Row(r"I [be] (?:all |now |still |mostly |currently )*(?:on|running|using) {tools} (?:now|these days|nowadays)", ANY_TOOL, "preference", "Now uses {tools}.", weak=True, changes=True),
    Row(r"I [use] (?P<rest>(?:the |a )?(?:dark|light) (?:mode|theme).*|metric.*|imperial.*|tabs.*|\w+ spaces.*|celsius|fahrenheit)", "likes", "preference", "Uses {rest}."),
    Row(r"I (?:[use]|[run]) {tools} on {known}", ANY_TOOL, "preference", "Uses {tools}.", also=((ANY_TOOL, "preference", "Uses {known}."),), weak=True),
    Row(r"I (?:[use]|[run](?: on| everything on)?|[deploy] (?:on|to|with)|[host] (?:\w+ )?on|[code] in|[write] (?:\w+ ){0,3}in|[rely] on|[work] (?:mostly |mainly )?(?:with|in)) {tools}", ANY_TOOL, "preference", "Uses {tools}.", weak=True),
    Row(r"I (?:[cache]|[log]|[store] (?:\w+ ){1,3}|[track] (?:\w+ ){1,3}|[document] (?:\w+ ){1,3}|[monitor] (?:\w+ ){0,3}) ?(?:in|with|on) {known}", ANY_TOOL, "preference", "Uses {known}.", weak=True),
    Row(r"I have been (?:on|using|running|running on) {known}", ANY_TOOL, "preference", "Uses {known}.", weak=True),
    Row(r"I [be] (?:all |now |still |mostly |currently )*(?:on|running|running on) (?!.*\b(?:in|inside|on) (?:the|a|this|my)\b){known}", ANY_TOOL, "preference", "Uses {known}.", weak=True),
    Row(r"(?:we|we are|the team is) (?:all |now |still |mostly |currently )*(?:are )?(?:on|running on) (?!.*\b(?:in|inside|on) (?:the|a|this|my)\b){tools}", ANY_TOOL, "preference", "Uses {tools}.", weak=True),
    Row(r"I [be] (?:all |now |still |mostly |currently )*using (?!.*\b(?:in|inside|on) (?:the|a|this|my)\b){tools}", ANY_TOOL, "preference", "Uses {tools}.", weak=True),
    Row(r"(?:my|our) (?:team|company|department|office|lab|school) [use] {tools}", ANY_TOOL, "preference", "Uses {tools}.", weak=True),
    Row(r"(?P<who>we) use {practice}", "tools", "preference", "Uses {practice}.", weak=True),
    Row(r"uses {practice}", "tools", "preference", "Uses {practice}.", weak=True),
    Row(r"my (?P<attr>tests|test suite|backend|frontend|back end|front end|api|services?|login service|app|mobile app|code|codebase) (?:is|are|was|were) (?:all |mostly |now )*(?:re)?(?:written|built|done) (?:in|with|on) (?P<rest>.*)", "@attr", "preference", "{Attr} is written in {rest}.", manner="written"),
    # Taste
    Row(rf"I {_OFTEN}[prefer] (?P<rest>(?:my|our|their) .*)", "likes", "preference", "Prefers {rest}."),
    Row(rf"I {_OFTEN}[prefer] {{thing}} (?:over|to|rather than|instead of) (?P<over>[^,]{{1,60}})", "likes", "preference", "Prefers {thing} over {over}.", manner="over"),
    Row(rf"I {_OFTEN}[like] {{thing}} (?:better|more) than (?P<over>[^,]{{1,60}})", "likes", "preference", "Prefers {thing} over {over}.", manner="over"),
    Row(rf"I (?:would|'d) {_OFTEN}(?:always )?(?:rather (?:have|get|use|take)|prefer) {{thing}}", "likes", "preference", "Prefers {thing}."),
    Row(rf"I {_OFTEN}[prefer] (?:the )?(?P<thing>.*)", "likes", "preference", "Prefers {thing}."),
    Row(r"I (?:don't|do not|dont|doesn't|does not) (?:really |particularly |much )?(?:like|enjoy|care for) {liked}", "likes", "preference", "Dislikes {liked}.", likes=False),
    Row(rf"I {_OFTEN}(?:[hate]|[dislike]|[detest]|[loathe]|can't stand|cannot stand|can't bear) {{liked}}", "likes", "preference", "Dislikes {liked}.", likes=False),
    Row(r"I [be] not (?:a (?:big |huge )?fan of|into|fond of) {liked}", "likes", "preference", "Dislikes {liked}.", likes=False),
    Row(r"I [be] (?:really |also )?(?:a (?:big |huge |massive )?fan of|into|fond of|passionate about) {liked}", "likes", "preference", "Likes {liked}."),
    Row(rf"I {_OFTEN}(?:[like]|[enjoy]) {{liked}}", "likes", "preference", "Likes {liked}."),
    Row(rf"I {_OFTEN}(?:[love]|[adore]) {{liked}}", "likes", "preference", "Loves {liked}."),
    Row(r"my (?:all-?time )?favou?rite (?!thing|part|one|moment|memory|time)(?P<attr>[\w ]{2,30}?) (?:is|are) (?:still |definitely |probably )?{rest}", "favourite @attr", "preference", "Favourite {attr} is {rest}."),
    Row(r"I (?:only |always )+(?:[fly]|[travel]|[ride]) (?P<rest>.*)", "travel", "preference", "Flies only {rest}."),
    Row(r"I [want] (?P<thing>.*\b(?:answers?|replies|responses|explanations|examples|summaries|emojis?|code)\b.*)", "likes", "preference", "Wants {thing}.", weak=True),
    # Food and health
    Row(r"I [be] (?:severely |mildly |very |badly )?allergic to {things}", "allergies", "constraint", "Allergic to {things}."),
    Row(r"I [have] an? (?:severe |bad |mild )?(?P<rest>[\w ]{2,30}) allergy", "allergies", "constraint", "Allergic to {rest}."),
    Row(r"I [be] (?:a |an )?(?:strict |mostly |also |both )?(?P<rest>vegan|vegetarian|pescatarian|flexitarian|teetotal|gluten[- ]free|dairy[- ]free|lactose[- ]intolerant|gluten[- ]intolerant|coeliac|celiac|keto)", "diet", "preference", "Is {rest}."),
    Row(r"as an? (?:strict )?(?P<rest>vegan|vegetarian|pescatarian)\b,? (?=i\b|we\b)", "diet", "preference", "Is {rest}.", bare=True),
    Row(r"I [eat] (?P<rest>(?:only )?(?:halal|kosher|gluten[- ]free|plant-based|low-carb)\b.*)", "diet", "preference", "Eats {rest}."),
    Row(r"I (?:don't|do not|dont|doesn't|does not|can't|cannot|never) eat {things}", "food", "preference", "Does not eat {things}.", likes=False),
    Row(r"I (?:don't|do not|dont|doesn't|does not|never) drink {things}", "drinks", "preference", "Does not drink {things}.", likes=False),
    Row(r"I can only eat {thing}", "food", "constraint", "Can only eat {thing}."),
    Row(r"I [drink] (?:way |far |too |so |only |mostly )*(?:much |a lot of |lots of )?{thing}", "drinks", "preference", "Drinks {thing}."),
    Row(r"I (?:don't|do not|dont|doesn't|does not) (?P<rest>smoke|drive)", "habits", "preference", "Does not {rest}.", likes=False),
    Row(r"I [smoke]", "habits", "preference", "Smokes."),
    # Family and pets
    Row(rf"my (?P<attr>{PETS})(?: is called| is named|'s name is| is) {{Person}}", "pets", "profile", "{Attr} is called {Person}."),
    Row(rf"I [have] (?P<rest>an? (?:[\w-]+ ){{0,3}}(?:{PETS})) (?:called|named) {{name}}", "pets", "profile", "Has {rest} called {name}."),
    Row(rf"I (?:[have]|[own]|adopted|got) (?P<rest>(?:an?|one|two|three|four|five|six|\d) (?:[\w-]+ ){{0,3}}(?:{PETS})e?s?)(?=$|[,.]| (?:and|who|that|at|from|with|but|so|since|too)\b)", "pets", "profile", "Has {rest}."),
    Row(rf"my (?P<attr>{RELATIVES})(?: is called| is named|'s name is) {{name}}", "@attr's name", "profile", "{Attr} is called {name}."),
    Row(rf"I [have] (?P<rest>(?:an?|one|two|three|four|five|six|\d) (?:[\w-]+ ){{0,3}}(?:{RELATIVES})s?(?:ren)?(?: (?:called|named) [A-Z]\w+)?(?: and (?:an?|one|two|three|\d) (?:{RELATIVES})s?)?)\b", "family", "profile", "Has {rest}."),
    Row(rf"(?:my|our) (?P<attr>(?:{RELATIVES}|(?:{PETS}))(?: (?-i:[A-Z])\w+)?) (?P<rest>(?:works|work|lives|live|starts|start|speaks|studies|goes to|plays|teaches|attends|is an? |is allergic|is vegan|is vegetarian|was born|turns) ?.*)", "@attr", "profile", "{Attr} {rest}."),
    # Habits
    Row(r"I [drink](?: alcohol)?$", "drinks", "preference", "Drinks alcohol."),
    Row(r"I [drive] (?P<rest>(?:an?|my) .*)", "car", "profile", "Drives {rest}."),
    Row(r"I (?P<how>[play]|[collect]|[coach]|[maintain]|[volunteer]|[teach]|[tutor]|[support]|[practice]|[own]) {thing}", "@how", "preference", "{How} {thing}."),
    Row(r"I (?P<how>[develop]|[build]|[design]|[sell]|[manage]|[lead]|[oversee]|[edit]|[supervise]) (?!to\b){thing}", "work", "profile", "{How} {thing}."),
    Row(rf"I (?P<how>always|never|usually|mostly|only) (?P<rest>(?:{_HABIT}) .*)", "habits", "preference", "{How} {rest}."),
    Row(r"I [be] (?:more of |also |really )?(?P<rest>an? (?:\w+ )?[\w-]+ (?:person|guy|girl|lover|enthusiast|geek|nerd|(?<!big )(?<!huge )(?<!massive )(?<!great )fan|supporter))", "likes", "preference", "Is {rest}."),
    Row(r"I (?P<how>[sing]|[dance]|[swim]|[climb]|[row]|[bake]|[knit]|[sew]|[paint]|[box]|[hike]|[surf]|[ski]|[garden]) (?P<rest>(?:in|every|on|with|at|for|competitively|regularly)\b.*)", "hobbies", "preference", "{How} {rest}."),
    Row(r"I [study] {liked}", "studies", "profile", "Studies {liked}."),
    Row(r"I (?P<rest>[cycle] to work.*|[commute] .*|[work] from home.*|[work] remotely.*|[work] nights.*|[get] up at .*|[wake] up at .*|[be] on call every .*|[be] on (?:the )?(?:night|day|early|late) shifts?.*|[run] \w+ (?:k|km|miles) .*|(?:[go]|[run]|[swim]|[meditate]|[train]|[cook]|[walk]) .*\b(?:every (?!time)\w+|(?:once|twice|\w+ times) an? (?:week|month|day)).*)", "routine", "preference", "{Rest}."),
    # What the user's things and team are
    Row(r"my (?:[\w-]+ ){1,3}runs? on (?:now |all |top of )?{known}", ANY_TOOL, "preference", "Uses {known}.", weak=True),
    Row(rf"my (?P<attr>(?:\w+ )?(?:{ATTRIBUTES})) (?:is|are) (?:called|named) {{rest}}", "@attr", "preference", "{Attr} is called {rest}.", manner="named"),
    Row(rf"my (?P<attr>(?:\w+ )?(?:{ATTRIBUTES})) (?:is|are) (?:now |currently |still )*(?:called |named )?(?P<rest>.*)", "@attr", "preference", "{Attr} is {rest}.", weak=True, manner="is"),
    Row(rf"my (?P<attr>(?:\w+ )?(?:{ATTRIBUTES})) (?P<rest>(?:(?:is|are) (?:hosted|deployed|kept|tracked|managed|stored)|runs?|lives?|sits?|starts?|ends?|expires?|renews?) (?:now )?(?:in|on|at|with|under) .*)", "@attr", "preference", "{Attr} {rest}.", weak=True, manner="at"),
    Row(r"my (?:[\w-]+ ){1,3}(?:is|are|runs? on|lives? in|is on|are on|are in) (?:now |all |on |in )?{known}", ANY_TOOL, "preference", "Uses {known}.", weak=True),
)  # fmt: skip
