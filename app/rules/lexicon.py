"""The closed word lists that the rules lean on. A line here widens what the rules know.

Lists stay short on purpose: a word belongs here only if taking it wrongly would store or retire
a wrong fact.
"""


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_TOOLS = {
    "database": "postgres=postgresql=pg=postgre mysql mariadb mongodb=mongo sqlite planetscale "
    "cockroachdb=cockroach oracle sql_server=mssql dynamodb cassandra supabase neon firestore "
    "clickhouse couchdb neo4j timescaledb duckdb scylladb yugabytedb",
    "cache": "redis memcached valkey dragonfly",
    "editor": "vim neovim=nvim emacs vs_code=vscode=visual_studio_code helix nano sublime_text="
    "sublime intellij=intellij_idea pycharm webstorm zed cursor eclipse xcode android_studio",
    "cloud provider": "aws=amazon_web_services gcp=google_cloud azure hetzner digitalocean heroku "
    "fly.io vercel netlify ovh linode scaleway render cloudflare",
    "frontend framework": "react=react.js=reactjs vue=vue.js svelte sveltekit angular next.js="
    "nextjs nuxt solid.js htmx",
    "web framework": "django flask fastapi rails=ruby_on_rails spring=spring_boot express laravel "
    "phoenix symfony .net=dotnet=asp.net nestjs",
    "operating system": "linux ubuntu fedora debian windows macos=mac_os arch=arch_linux nixos "
    "mint=linux_mint pop!_os freebsd",
    "browser": "firefox chrome safari brave vivaldi",
    "shell": "bash zsh fish powershell",
    "test framework": "pytest unittest jest vitest mocha playwright cypress junit rspec",
    "package manager": "npm pnpm yarn pip uv poetry conda cargo homebrew bun",
    "ci system": "github_actions gitlab_ci jenkins circleci buildkite travis teamcity",
    "message broker": "kafka rabbitmq sqs nats pulsar activemq",
    "task queue": "celery sidekiq rq dramatiq procrastinate temporal airflow dagster prefect",
    "monitoring": "grafana datadog prometheus new_relic sentry pagerduty nagios zabbix",
    "chat tool": "slack microsoft_teams=ms_teams discord mattermost telegram signal whatsapp",
    "documentation tool": "notion confluence obsidian gitbook",
    "issue tracker": "jira linear trello asana youtrack clickup monday.com",
    "orchestration": "kubernetes=k8s nomad docker_swarm openshift ecs",
    "containers": "docker podman",
    "infrastructure tool": "terraform pulumi ansible opentofu puppet chef proxmox vmware helm "
    "nginx caddy traefik haproxy",
    "code host": "github gitlab bitbucket gitea forgejo",
    "version control": "git mercurial svn=subversion jujutsu",
    "data warehouse": "snowflake bigquery redshift databricks",
    "data tool": "spark pandas polars dbt flink hadoop tableau power_bi looker excel "
    "google_sheets metabase numpy",
    "linter": "ruff eslint prettier black flake8 pylint biome",
    "search engine": "elasticsearch=elastic opensearch meilisearch typesense solr algolia",
    "programming language": "python rust go=golang java kotlin typescript javascript ruby php c++ "
    "c# swift scala elixir haskell clojure julia perl lua zig ocaml erlang fortran cobol dart "
    "sql matlab",
    "design tool": "figma sketch photoshop illustrator blender canva",
    "payment provider": "stripe paypal adyen mollie braintree",
    "feature flag tool": "launchdarkly unleash flagsmith",
}


def _read_tools() -> dict[str, tuple[str, str]]:
    known = {}
    for category, words in _TOOLS.items():
        for word in words.split():
            names = [name.replace("_", " ") for name in word.split("=")]
            known.update(dict.fromkeys(names, (names[0], category)))
    return known


TOOLS = _read_tools()
"""Folded name -> (one spelling for all its aliases, category)."""

LANGUAGES = _words(
    "english german french spanish portuguese italian romanian dutch polish czech slovak hungarian "
    "greek turkish russian ukrainian bulgarian serbian croatian slovenian bosnian albanian swedish "
    "norwegian danish finnish icelandic estonian latvian lithuanian irish welsh catalan basque "
    "galician arabic hebrew persian farsi urdu hindi bengali punjabi tamil telugu marathi gujarati "
    "thai vietnamese indonesian malay tagalog filipino japanese korean chinese mandarin cantonese "
    "swahili amharic yoruba igbo hausa zulu afrikaans esperanto latin georgian armenian "
    "deutsch français español português italiano română romana nederlands polski"
)

DEMONYMS = LANGUAGES | _words(
    "american british canadian australian austrian swiss belgian scottish brazilian mexican "
    "argentinian colombian chilean peruvian indian pakistani egyptian moroccan nigerian kenyan "
    "ghanaian ethiopian european african asian israeli iranian iraqi lebanese syrian bavarian "
    "catholic muslim christian jewish buddhist hindu atheist"
)

_PLACES = (
    "amsterdam athens atlanta austin barcelona basel beijing belgrade bergen berlin bern bilbao "
    "birmingham bogota bologna bonn bordeaux boston bratislava bremen bristol brno brussels "
    "bucharest budapest cairo cardiff chicago cluj cluj-napoca cologne copenhagen "
    "cork dallas delhi "
    "denver detroit dresden dubai dublin düsseldorf edinburgh florence frankfurt galway gdansk "
    "geneva genoa ghent glasgow gothenburg graz hamburg hanover helsinki houston iasi iași "
    "innsbruck istanbul jakarta kiev kyiv krakow kraków lagos lausanne leeds leipzig lille lima "
    "linz lisbon ljubljana london lyon madrid malmö manchester marseille melbourne miami milan "
    "montreal moscow mumbai munich nairobi nantes naples nice nottingham nuremberg oporto oslo "
    "ottawa paris perth philadelphia phoenix porto prague riga rome rotterdam salzburg seattle "
    "seoul seville sheffield singapore sofia stockholm stuttgart sydney tallinn tampere tartu "
    "tbilisi timisoara timișoara tokyo toronto toulouse trieste turin utrecht valencia vancouver "
    "venice vienna vilnius warsaw wroclaw wrocław zagreb zaragoza zurich zürich england scotland "
    "wales ireland germany austria switzerland france spain portugal italy romania poland hungary "
    "greece sweden norway denmark finland netherlands belgium canada mexico brazil japan india "
    "china australia europe america scotland estonia latvia lithuania croatia serbia bulgaria "
    "turkey ukraine brooklyn"
)
PLACES = _words(_PLACES) | {
    "new york",
    "san francisco",
    "los angeles",
    "hong kong",
    "tel aviv",
    "new zealand",
    "buenos aires",
    "sao paulo",
    "são paulo",
    "cape town",
    "mexico city",
    "the hague",
    "the netherlands",
    "the uk",
    "the us",
    "the usa",
    "united kingdom",
    "united states",
}
"""Only where a sentence alone doesn't tell a place from a company or a product."""

RELATIVES = (
    "(?:step-?|grand)?(?:daughter|son|child|children|mother|father|mum|mom|dad)|wife|husband|spouse|partner|girlfriend|boyfriend|fiancée?|daughter|son|kids?|child|children|"
    "baby|mother|mom|mum|father|dad|parents?|brother|sister|siblings?|grandmother|grandfather|"
    "grandma|grandpa|aunt|uncle|niece|nephew|cousin|twins?|stepson|stepdaughter|mother-in-law|"
    "father-in-law"
)
PETS = (
    "dog|cat|puppy|kitten|parrot|rabbit|hamster|horse|pony|tortoise|turtle|goldfish|bird|budgie|"
    "ferret|guinea "
    "pig|snake|lizard|gecko|chicken|hen|greyhound|labrador|retriever|shepherd|terrier|"
    "collie|spaniel|corgi|pug|husky|doberman|mutt|tabby|siamese|beagle|poodle|dachshund"
)

ATTRIBUTES = (
    "manager|boss|team lead|supervisor|birthday|time ?zone|editor|laptop|phone|router|printer|"
    "camera|tablet|watch|computer|desktop|monitor|tv|piano|guitar|nas|car|bike|keyboard|"
    "fiscal year|financial year|school year|semester|lease|visa|passport|studio|shop|clinic|"
    "workshop|farm|shell|browser|operating system|os|terminal|default branch|main branch|"
    "git default branch|"
    "job title|title|role|occupation|profession|job|employer|company|plan|budget|stack|"
    "tech stack|tech lead|product|team|team name|website|blog|pronouns|native language|"
    "mother tongue|first language|surname|last name|first name|nickname|instrument|hobby|"
    "hobbies|degree|major|university|school|hometown|city|country|company name|startup|"
    "framework|language|dress size|shoe size|height|star sign|commute|work hours|working hours|"
    "sprint review|stand-?up|code freeze|backend|frontend|back end|front end|api|ci|monitoring|"
    "documentation|docs|staging|production|prod|infrastructure|infra|hosting|cloud|"
    "cloud provider|db|database|main database|cache|queue|message queue|repo|monorepo|codebase|"
    "wiki|issue tracker|tickets?|test suite|tests|linter|style guide|brand colou?r|"
    "target audience|customers?|office|headquarters|hq|email client|mobile app|app|"
    "login service|tone of voice|currency|car insurance|bank|gym|doctor|dentist|landlord|"
    "sprints?|release train|on-call rota"
)
"""What "my … is …" may be about: things that stay true for months."""

NOT_NAMES = _words(
    "a an the not so very just really new here there back sure sorry glad happy sad tired afraid "
    "fine good great ok okay done ready late early busy stuck lost confused curious interested "
    "looking trying working going using getting having making building writing learning thinking "
    "planning planing wondering hoping on in at from with by about into out off over under up down "
    "vegan vegetarian single married divorced pregnant sick ill hungry thirsty bored stressed "
    "currently also always never still already now only all both one two your his her their our "
    "mostly currently actually basically honestly definitely totally cto ceo cfo coo vp hr qa pm "
    "excited worried pretty quite too as well right wrong serious kidding joking broke based "
    "batman god king queen him it that this what which who me us them legit dead alive allergic "
    "afk remote freelance self-employed retired unemployed monday tuesday wednesday thursday "
    "friday saturday sunday windows linux mac android ios"
)

ROLE_ENDINGS = (
    "er",
    "or",
    "ist",
    "ian",
    "eer",
    "consultant",
    "accountant",
    "assistant",
    "attendant",
    "student",
    "agent",
    "president",
    "superintendent",
    "lieutenant",
    "sergeant",
    "resident",
    "civil servant",
    "nurse",
    "chef",
    "cook",
    "lead",
    "architect",
    "analyst",
    "founder",
    "ceo",
    "cto",
    "cfo",
    "coo",
    "pm",
    "dba",
    "sre",
    "dev",
    "devops",
    "head",
    "intern",
    "clerk",
    "pilot",
    "professor",
    "engineer",
    "apprentice",
    "mechanic",
    "coach",
    "phd",
    "postdoc",
    "student",
    "teacher",
    "guide",
    "guard",
    "vet",
    "midwife",
    "surgeon",
    "admin",
    "sysadmin",
    "academic",
    "associate",
    "executive",
    "ops",
    "officer",
    "secretary",
    "translator",
    "specialist",
    "scientist",
    "scrum master",
    "fellow",
    "diplomat",
    "representative",
    "carpenter",
    "plumber",
    "tech",
)
NOT_ROLES = _words(
    "customer user subscriber member lover sucker believer beginner newcomer outsider loser winner "
    "idiot genius monster morning another other bother matter number letter order owner speaker "
    "fighter sleeper eater drinker smoker thinker joker stranger newer client patient different "
    "decent silent current recent giant mutant elephant parent gamer reader starter former latter "
    "hater liker sinner quitter survivor traitor better brother sister father mother daughter "
    "vegetarian minor senior junior person follower supporter foreigner neither either over after "
    "pescatarian flexitarian human european italian romanian austrian cancer bit"
)

MOODS = (
    r"tired|exhausted|sleepy|hungry|thirsty|bored|stressed|sick|ill|hungover|mad|angry|sad|happy|"
    r"excited|nervous|worried|confused|stuck|lost|late|busy|annoyed|frustrated|upset|down|broken|"
    r"failing|red|green|slow|dead|empty|full|wrong|missing|crashing|offline|asleep|awake|away|"
    r"here|there|back|ready|done|waiting|coming|visiting|great|fine|ok|okay|good|bad|terrible|"
    r"awful|amazing|awesome|beautiful|nice|weird|ridiculous|a mess|a nightmare|a pain|a lot|"
    r"a bit|not|so|too|very|really|pretty|getting|being|acting|going|trying|still|already|just|"
    r"almost|about to|due|the best|the worst|the only|the same|the problem|the reason"
)
