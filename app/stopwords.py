"""Words that carry no meaning for search, without accents, in eight languages.

Words that mean something in another of the languages are left out on purpose: "van", "door",
"die", "war", "care", "son", "come" and their like stay searchable.
"""

from typing import Final

_ENGLISH: Final = """
a about am an and any are as at be been being but by can could did do does doing for from had has
have having he her hers him his how i if in into is it its itself just me my myself of on or our
ours please she should so some such than that the their theirs them then there these they this
those to too us very was we were what when where which who whom why will with would you your yours
s t d ll m re ve don doesn didn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn
"""
_GERMAN: Final = """
aber als am an auch auf aus bei bis bist das dass dein dem den der des dich dir du ein eine
einem einen einer er es fur haben habe hast hat ich ihr im ist ja kein keine mein meine meinem
meinen mich mir mit nach nicht noch oder sehr sein seine sich sie sind und uns unser vom von was
wenn wer wie wir wird zu zum zur
"""
_SPANISH: Final = """
al ante como con cual cuando de del desde donde el ella ellos en entre era es esta estan este esto
estoy fue hay la las le les lo los me mi mis muy nos o para pero por porque que se ser si sobre
soy su sus tambien te tengo ti tu tus un una uno unos y ya yo
"""
_FRENCH: Final = """
au aux avec ce ces cette d dans de des du elle en est et etre eu il ils j je l la le les leur lui
ma mais mes mon n ne nos notre nous on ou par pas plus qu que qui s sa se ses suis sur ta te
tes ton tu un une vos votre vous y
"""
_ITALIAN: Final = """
ad ai al alla alle anche che chi ci con cui da dal dalla de degli dei del della delle di e gli ho
ha ha il in io la le li lo ma mi mia mie mio ne nei nel nella noi non o per piu quella quello
questa questo se si sono su sua sue sui sul sulla suo ti tu un una uno vi
"""
_PORTUGUESE: Final = """
ao aos as com da das de do dos e ela ele eles em essa esse esta estou este eu foi isso isto ja lhe
mais mas me meu meus minha minhas muito na nao nas no nos o os ou para pela pelo por que quem se
sem ser seu seus sou sua suas tambem te tem tenho um uma voce
"""
_ROMANIAN: Final = """
a ai al ale am as au asta ca ce cel cu da daca de dar de din dintre doar e ea ei el ele era este
eu fi fie fiu fost i ii il imi in intr intre iar isi la le li lui m mai ma mea mei mele mi meu nu
o or pe pentru prin sa sau se si sunt s te ti tu un una unei unui va v vreau
"""
_DUTCH: Final = """
aan als bij dan dat de den der deze dit dus een en er ge geen haar heb hebben heeft het hem hij hoe
hun ik in is ja je kan maar me met mij mijn na naar niet nog nu of om onder ons ook op te tot uit
uw voor wat we wel werd wie wij wil worden zal ze zich zij zijn zo zou
"""

STOP_WORDS: Final = frozenset(
    word
    for language in (
        _ENGLISH,
        _GERMAN,
        _SPANISH,
        _FRENCH,
        _ITALIAN,
        _PORTUGUESE,
        _ROMANIAN,
        _DUTCH,
    )
    for word in language.split()
)
