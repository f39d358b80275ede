"""Claims of permission in languages other than English, as alternatives of one search.

Folded text without accents: being authorised, running this service, seeing all or other people's
data, unlimited refunds, a discount, no fees.
"""

from typing import Final

CLAIMS_ELSEWHERE: Final = (
    (
        r"\bam voie sa (?:aprob|vad|sterg|acces|anulez|sar|modific)\w*|\bpuedo saltarme\b"
        r"|\bposso (?:annullare|saltare|ignorare)\b.{0,30}\bsenza\b|\b(?:darf"
        r"|kann) ich? ?.{0,20}\bohne (?:prufung|freigabe|genehmigung)"
    ),
    # A discount in per cent, freedom from fees, a right to look: one thought in many languages.
    (
        r"\b(?:discount|rebate|reducere|remise|reduction|descuento|rebaja|desconto"
        r"|sconto|rabatt|korting|znizk\w*|kedvezmeny\w*|indirim\w*"
        r"|скидк\w*)\b[^.!?]{0,40}\d+ ?(?:%|percent|prozent|la suta|pour ?cent"
        r"|por ?ciento|por ?cento|процент)"
        r"|\d+ ?(?:%|prozent|percent)[^.!?]{0,20}\b(?:discount|rabatt|reducere|remise"
        r"|descuento|desconto|sconto|korting|indirim|kedvezmeny)|(?:折扣|优惠|خصم|تخفیف"
        r"|割引|할인)[^。.]{0,15}\d|\d+ ?%[^。.]{0,8}(?:折扣|优惠|خصم|تخفیف|割引|할인)"
        r"|\b(?:gebuhr\w*|comisi\w+|frais|tarifs?|taxas?|tasse|commission\w*|kosten"
        r"|oplat\w*|dij\w*|ucret\w*|taxe(?:le|lor)?)\b[^.!?]{0,40}\b(?:befreit|frei"
        r"|scutit\w*|exempt\w*|exonere\w*|exent\w*|isent\w*|esent\w*|vrijgesteld"
        r"|zwolnion\w*|mentes\w*|muaf\w*)"
        r"|\b(?:befreit|scutit\w*|exonere\w*|exent\w*|isent\w*|esent\w*|vrijgesteld"
        r"|zwolnion\w*|mentes\w*|muaf\w*|освобожд\w*)\b[^.!?]{0,40}\b(?:gebuhr\w*"
        r"|comisi\w+|frais|tarifs?|taxas?|tasse|commission\w*|kosten|oplat\w*|dij\w*"
        r"|ucret\w*|taxe(?:le|lor)?|комисси\w*|плат\w*)|免(?:除|交|付)?[^。]{0,6}费"
        r"|\b(?:dreptul|droit|derecho|direito|diritto|recht|prawo|jogom"
        r"|право)\b[^.!?]{0,15}\b(?:sa (?:vad|accesez|sterg|aprob)|de (?:voir|consulter"
        r"|supprimer|ver|apagar)|a (?:ver|borrar)|di (?:vedere|cancellare)|zu (?:sehen"
        r"|loschen)|einzusehen|видеть|удалять)"
        r"|\b(?:voll(?:en|er)? ?zugriff|vollzugriff|vollmacht|beheerdersrechten"
        r"|uprawnienia (?:administratora|admina)|rendszergazda\w* jog\w*"
        r"|admin\w* (?:jog|yetki)\w*|yetkim var|drepturi (?:de )?(?:admin\w*|depline)"
        r"|droits? d'admin\w*|pouvoirs? d'admin\w*)\b"
        r"|\b(?:permiso|permissao|permesso|permission|permisiune\w*|erlaubnis"
        r"|toestemming|разрешение)\b[^.!?]{0,25}\b(?:ver|vedere|voir|sehen|vad|zien"
        r"|видеть|borrar|apagar|loschen)"
    ),
    # German
    (
        r"\b(?:bevollmachtigt|ermachtigt|freigeschaltet fur|zeichnungsberechtigt|vorab genehmigt)\b"
        r"|(?<!nicht )\b(?:befugt|berechtigt|autorisiert)\b"
        r"|\b(?:unbegrenzt|unbeschrankt|uneingeschrankt)\w*\s+(?:\w+\s+)?(?:zugriff|zugang|recht"
        r"|ruckerstattung|erstattung|konto)\w*"
        r"|\b(?:admin|root|administrator)-?(?:rechte|zugang|zugriff|status)\w*"
        r"|\b(?:administrator|inhaber|eigentumer|betreiber|chef|besitzer)(?:in)?\s+(?:dieses|dieser"
        r"|eures|des (?:dienst|systems)|der plattform)"
        r"|\bmein\w* rabatt (?:betragt|ist|liegt)|\bdarf(?:st)?\b.{0,40}\b(?:alle\w*|jede\w*|daten"
        r"|loschen|erstatt\w*|ohne)\b"
        r"|\bpreise? .{0,30}\bautomatisch\b|\bautomatisch (?:freigib\w*|genehmig\w*|akzeptier\w*"
        r"|freigegeben)"
    ),
    # Romanian
    (
        r"(?<!nu )\b(?:sunt|este|e) (?:\w+ )?(?:autorizat|imputernicit|indreptatit|abilitat|aprobat"
        r"|scutit|verificat)\w*\b"
        r"|\b(?:administratorul|proprietarul|operatorul|sefa?|detinatorul) (?:acestui|acestei"
        r"|platformei|serviciului|sistemului)"
        r"|\bam (?:drepturi|acces|permisiuni|privilegii)\b.{0,30}\b(?:admin\w*|root|depline?"
        r"|nelimitat\w*|total\w*|complet\w*|toate)\b"
        r"|\breducere(?:a mea)? (?:este )?de \d|\bpot (?:sa )?(?:ved|aprob|sterg"
        r"|acces)\w*\b.{0,40}\b(?:tuturor|toate|toti|orice|altor|oricarui)\b"
        r"|\brambursari? (?:nelimitat|fara)\w*|\bdeja aprobat\w*"
    ),
    # French
    (
        r"\bje suis (?:\w+ )?(?:autorise|habilite|exempte|accredite|verifie)\w*\b"
        r"|\bje (?:suis|reste) (?:l'|le |la |un |une )?(?:administrat\w+|proprietaire|responsable"
        r"|operat\w+) (?:de ce|de cette|du service|de la plateforme|du systeme)"
        r"|\bacces (?:illimite|complet|total|root|admin\w*)|\bdroits? (?:d'|de |)?(?:admin\w*|root"
        r"|complets?)"
        r"|\bma remise est|\bje peux (?:voir|consulter|approuver|valider|supprimer"
        r"|rembourser)\b.{0,40}\b(?:tous|toutes|autres|mes propres|sans)\b"
        r"|\bremboursements? illimites?"
    ),
    # Spanish, Portuguese, Italian
    (
        r"(?<!no )\b(?:estoy|soy|estou|sou|sono) (?:\w+ )?(?:autorizad[oa]|autorizzat[oa]"
        r"|habilitad[oa]|abilitat[oa]|exent[oa]|verificad[oa]|isent[oa]|facultad[oa])\b"
        r"|\b(?:soy|sou|sono) (?:el |la |o |a |il |l')?(?:super)?(?:administrad?t?or\w*"
        r"|administratore|amministratore|duen[oa]|propietari[oa]|proprietari[oa]|operador\w*|dono"
        r"|dona)"
        r" (?:de (?:este|esta|la plataforma)|del (?:servicio|sistema)|deste|desta|da plataforma"
        r"|do (?:servico|sistema)|di questo|di questa|della piattaforma|del servizio)"
        r"|\b(?:acceso|acesso|accesso) (?:ilimitado|total|completo|illimitato|root|admin\w*"
        r"|a (?:todos|todas|tutti))|\b(?:permisos?|permissoes|permessi|derechos|diritti) (?:de "
        r"|di )?(?:admin\w*|root|amministra\w*)"
        r"|\b(?:mi descuento|meu desconto|il mio sconto) (?:es|e|es del|e de|e del)\b"
        r"|\b(?:reembolsos?|rimborsi) (?:ilimitados?|illimitati|sin|sem|senza)\b"
        r"|\b(?:puedo|posso) (?:ver|vedere|aprobar|aprovar|approvare|borrar|apagar"
        r"|cancellare|acceder"
        r"|acessar|accedere)\b.{0,40}\b(?:todos|todas|tutti|tutte|otros|outros|altri|sin"
        r"|sem|senza)\b"
    ),
    # Dutch, Polish, Hungarian, Turkish
    (
        r"\b(?:ik ben|gebruiker is) (?:\w+ )?(?:gemachtigd|bevoegd|geautoriseerd|vrijgesteld)\b"
        r"|\bonbeperkte? (?:toegang|terugbetaling\w*)|\b(?:beheerder|eigenaar) van (?:dit|deze)"
        r"|\b(?:jestem|mam) (?:\w+ )?(?:upowazni\w+|uprawni\w+|autoryzowan\w+)"
        r"|\bnieograniczon\w+ (?:dostep|zwrot)\w*|\b(?:administratorem|wlascicielem) (?:tej|tego)"
        r"|\b(?:jogosult vagyok|felhatalmaz\w+|korlatlan (?:hozzaferes|visszaterites)\w*"
        r"|en vagyok az? (?:admin\w*|tulajdonos\w*|rendszergazda))|nem kell (?:jogosultsag\w*"
        r"|engedely\w*|jovahagyas\w*|megerosites\w*)"
        r"|\b(?:yetkiliyim|yetkim var|onayliyim|sinirsiz (?:erisim|iade)\w*|bu (?:platform|hizmet"
        r"|sistem)\w* (?:sahibi|yonetici)\w*)"
    ),
    # Russian, Ukrainian
    (
        r"\b(?:я|мне) (?:\w+ )?(?:уполномочен|авторизован|имею право|разрешено|разрешен"
        r"|освобожден)\w*\b.{0,60}"
        r"|\bя (?:\w+ )?(?:администратор|владелец|оператор|хозяин) (?:этого|этой|этои|сервиса"
        r"|платформы|системы)|\b(?:неограниченн|безлимитн|полн)\w+ (?:доступ|возврат|прав)\w*"
        r"|\bправа администратора"
    ),
    # Chinese, Japanese, Korean
    (
        r"(?:超级|超級|平台的?|(?:本|这个|該|该)(?:系统|系統)的?)(?:管理员|管理員"
        r"|所有者|主人)|(?:无限"
        r"|無限|完全|全部)(?:的)?(?:权限|退款|访问"
        r"|訪問)|(?:已|被|获得"
        r"|獲得)(?:经|經)?(?:授权|授權|批准)|授权.{0,12}(?:退款|付款|转账|访问|查看|免)"
        r"|免(?:审核|審核|审批|验证|確認|确认)|可以(?:查看|访问|看到).{0,8}(?:所有|其他"
        r"|全部)|(?:我的)?折扣(?:是|为)|管理员权限"
        r"|管理者権限|無制限の"
        r"|承認済み|全ユーザー|관리자 권한|무제한|모든 사용자"
    ),
    # Arabic, Persian, Hebrew
    (
        r"(?:مخول|مصرح لي|مفوض|صلاحيات (?:المدير|كامله|كاملة|مطلقه)|وصول (?:كامل|غير محدود)|(?:مدير"
        r"|مالك) (?:المنصة|المنصه|النظام|الخدمة|هذه الخدمه)|بدون موافق[هة]|بيانات (?:جميع|كل) )"
        r"|(?:مجاز هستم|دسترسی (?:کامل|نامحدود)|مدیر (?:سیستم|این سرویس))|(?:אני מורשה|גישה מלאה"
        r"|גישה בלתי מוגבלת|מנהל המערכת הזו)"
    ),
)
