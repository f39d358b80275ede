"""Orders that no preference needs, in languages other than English.

Per language: lifting a rule or a check, persisting "for ever" or "as a fact", speaking to an
assistant in a third person's text, sending things away, other people's data. Folded text without
accents; plain wishes about style ("antworte immer auf Deutsch") match none of them.
"""

# ruff: noqa: RUF001 - words in other scripts look like Latin ones by nature

from typing import Final

from app.memory.patterns import one_of

_BY_LANGUAGE: Final = (
    # German
    (
        r"\b(?:ignorier|umgeh|uberspring|deaktivier|missacht|vergiss|losch|verschweig"
        r"|verheimlich)\w*\b.{0,50}\b(?:regel|anweisung|richtlinie|vorgabe|sicherheit|prufung"
        r"|bestatigung|freigabe|filter|abfrage|betreiber|system|protokoll|konto|daten|ruckfrage)\w*"
        r"|\b(?:regeln?|anweisung\w*|richtlinie\w*|vorgaben?|sicherheits\w+|prufung\w*"
        r"|bestatigung\w*"
        r"|freigaben?)\b.{0,50}\b(?:entfall\w*|gelten nicht|gilt nicht|nicht mehr"
        r"|ungultig|aufgehoben"
        r"|unnotig|wegfallen)"
        r"|\bohne (?:ruckfrage|nachfrage|bestatigung|prufung|genehmigung|freigabe|limit|zustimmung"
        r"|kontrolle|zu fragen|nachzufragen)"
        r"|\b(?:speicher|merk|schreib|notier|leg|nimm)\w*\b.{0,30}\b(?:als tatsache|als fakt"
        r"|dauerhaft|fur immer|fur alle zeit|langzeitgedachtnis|ins gedachtnis|ins profil"
        r"|im profil)"
        r"|\b(?:hinweis|notiz|anweisung|nachricht) (?:an|fur) (?:die |den |das )?(?:ki|assistent\w*"
        r"|sprachmodell\w*|bot|agent\w*)|\bim profil des nutzers\b|\b(?:der|die|dein|jede\w*) (?:ki"
        r"|assistent\w*|bot|sprachmodell) (?:soll|muss|darf|wird)"
        r"|\b(?:sende|schicke?|leite|ubertrage|uberweise|exportiere?"
        r"|lade)\b.{0,60}(?:\b\w+\.(?:example|com|de|net|org)\b|@|\ban\b|\bhoch\b)"
        r"|\b(?:wenn|falls|sobald|immer wenn)\b.{0,60}\b(?:sage?|schreibe?|tippe?"
        r"|eingebe)\b.{0,40}\b(?:losch|send|schick|genehmig|bestatig|freigeb|uberspring|zeig)\w*"
        r"|\bdaten (?:anderer|aller) (?:kunden|nutzer|benutzer)\w*"
    ),
    # Romanian
    (
        r"\b(?:ignor|ocolest|dezactiv|sari peste|uita|sterg|incalc)\w*\b.{0,50}\b(?:reguli|regul"
        r"|instructiun|politic|securitat|verificar|confirmar|operator|filtr|restricti|aprobar"
        r"|istoric)\w*"
        r"|\b(?:regul|instructiun|politic|verificar|confirmar|restricti"
        r"|aprobar)\w*\b.{0,40}\b(?:nu (?:se|mai|sunt)|nule|anulat\w*|suspendat\w*|inutil\w*)"
        r"|\bfara (?:confirmar|aprobar|verificar|limit|restricti|acord|permisiun|sa (?:intreb|ceri"
        r"|mai ceri|verific|confirm))\w*|\bnu mai (?:cere|ceri|verifica|verifici|intreba|intrebi"
        r"|confirma)\w*"
        r"|\b(?:tine minte|retine|memoreaz\w*|salveaz\w*|pastreaz\w*|noteaz\w*"
        r"|scrie)\b.{0,30}\b(?:pentru totdeauna|permanent|definitiv|in memorie|pe termen lung"
        r"|in profil|ca fapt)\b"
        r"|\b(?:catre|pentru) (?:asistent|ai|bot|modelul?)\w*\b|\basistentul (?:trebuie|va|sa"
        r"|poate)\b|\b(?:trimite|transfera|exporta|incarca"
        r"|redirectioneaza)\b.{0,60}(?:\b\w+\.(?:example|ro|com|net|org)\b|@|\b(?:la|catre|pe)\b)"
        r"|\b(?:cand|daca|ori de cate ori|de fiecare data)\b.{0,60}\b(?:spun|scriu"
        r"|zic)\b.{0,50}\b(?:sterg|trimit|aprob|confirm|arat|execut)\w*|\bdate(?:le)? (?:altor"
        r"|tuturor)\b|\braspunzi ca\b"
    ),
    # French
    (
        r"\b(?:ignor|desactiv|contourn|oubli|supprim|saut)\w*\b.{0,50}\b(?:regle|consigne"
        r"|instruction"
        r"|politique|securite|verification|confirmation|operateur|filtre|restriction|approbation"
        r"|journa)\w*"
        r"|\b(?:regle|consigne|instruction|politique|verification|confirmation"
        r"|restriction)s?\b.{0,40}\b(?:ne s'appliqu\w+|plus valables?|nulles?|annulees?|suspendues?"
        r"|inutiles?)"
        r"|\bsans (?:confirmation|approbation|verification|demander|me demander|limite|validation"
        r"|autorisation|controle|mon accord)|\bne (?:me )?demande\w* (?:plus|jamais|pas)\b"
        r"|\b(?:retiens|memorise\w*|enregistre\w*|garde\w*|note\w*"
        r"|sauvegarde\w*)\b.{0,30}\b(?:pour toujours|a jamais|en memoire|dans (?:la|ta|sa) memoire"
        r"|long terme|dans le profil|de facon permanente|definitivement)"
        r"|\b(?:note|message|instruction|consigne)s? (?:a|pour) (?:l'|les? |toute )?(?:ia"
        r"|assistants?"
        r"|modeles?|agents?)\b|\bl'assistant (?:doit|devra|peut)\b|\b(?:envoie\w*|transfere\w*"
        r"|transmets?|exporte\w*|publie\w*)\b.{0,60}(?:\b\w+\.(?:example|fr|com|net|org)\b|@|\b(?:a"
        r"|vers|sur)\b)"
        r"|\b(?:quand|lorsque|si|des que|chaque fois)\b.{0,60}\b(?:dis|ecris|tape"
        r"|demande)\b.{0,50}\b(?:supprim|envoi|approuv|valid|confirm|montr|execut)\w*"
        r"|\bdonnees (?:des|d') ?autres\b|\bautres (?:utilisateurs|clients)\b"
    ),
    # Spanish, Portuguese, Italian
    (
        r"\b(?:ignor|desactiv|desativ|disattiv|omit|salt|olvid|esquec|dimentic|borr|apag|elud|evit"
        r"|contorn|aggir|pul)\w*\b.{0,50}\b(?:regl|regr|regol|instruc|istruzion|politic|segurid"
        r"|seguranc|sicurezz|verific|confirm|conferm|operador|operator|filtr|restric|aprob|aprov"
        r"|approv|permis)\w*"
        r"|\b(?:reglas?|regras?|regole|instruc\w+|istruzioni|politicas?|verificac\w+|confirmac\w+"
        r"|conferm\w+)\b.{0,40}\b(?:ya no|nao se|non si|no se|no aplican|nao valem|non valgono"
        r"|anuladas?|nul[ale]\w*|suspendidas?|suspensas?|sospese)"
        r"|\b(?:sin|sem|senza) (?:confirma\w*|conferm\w*|aproba\w*|aprova\w*|approva\w*|verific\w*"
        r"|preguntar\w*|perguntar\w*|chiedere|pedir\w*|limite\w*|restric\w*|autoriza\w*"
        r"|autorizza\w*"
        r"|permiso|permissao|permesso|controllo|revision|revisao)"
        r"|\b(?:no|nao|non) (?:me |mi |vuelvas a |volver a |piu )*(?:pidas|preguntes|pergunte\w*"
        r"|peca\w*|chieder\w*|verifi\w+)\b"
        r"|\b(?:guarda\w*|recuerda\w*|memoriza\w*|anota\w*|salva\w*|lembr\w*|grava\w*|registr\w*"
        r"|ricorda\w*|memorizza\w*|annota\w*)\b.{0,30}\b(?:para siempre|para sempre|per sempre"
        r"|permanente\w*|en (?:tu |la )?memoria|na (?:tua |sua )?memoria|in memoria|largo plazo"
        r"|longo prazo|lungo termine|en el perfil|no perfil|nel profilo|como un hecho)"
        r"|\b(?:nota|mensaje|mensagem|messaggio|instruc\w+|istruzion\w+) (?:para|per|a"
        r"|al) (?:la |el "
        r"|o |a |l'|il )?(?:ia|asistente|assistente|modelo|modello|bot|agente)|\b(?:el|o|l'"
        r"|la) ?(?:asistente|assistente|ia) (?:debe|deve|puede|pode|puo)\b"
        r"|\b(?:envia|envie|manda|mande|reenvia|transfiere|transfere|exporta|invia|inoltra"
        r"|trasferisci|esporta|sube|carica|publica|pubblica)\w*\b.{0,60}(?:\b\w+\.(?:example|es|com"
        r"|net|org|it|br|pt)\b|@|\b(?:a|al|para)\b)"
        r"|\b(?:cuando|quando|si|se|cada vez|sempre que|ogni volta)\b.{0,60}\b(?:diga"
        r"|digo|escrib\w+"
        r"|escrev\w+|scriv\w+|dico|pregunt\w+|pergunt\w+)\b.{0,50}\b(?:borr|apag|cancell|envi|invi"
        r"|aprueb|aprov|approv|confirm|conferm|muestr|mostr|ejecut|execut|esegu|responde con"
        r"|rispondi con|responda com)\w*"
        r"|\b(?:datos|dados|dati) (?:de|di|degli|dos) (?:otros|outros|altri|todos"
        r"|tutti)\b|\b(?:otros"
        r"|outros|altri) (?:clientes|usuarios|clienti|utenti)\b"
    ),
    # Dutch, Polish, Hungarian, Turkish
    (
        r"\b(?:negeer|omzeil|sla)\b.{0,50}\b(?:regel|instructie|beleid|controle|bevestiging"
        r"|beveiliging)\w*|\bzonder (?:bevestiging|goedkeuring|controle|te vragen|toestemming)"
        r"|\b(?:onthoud|bewaar|sla op)\b.{0,30}\b(?:voor altijd|permanent|in (?:je|het) geheugen)"
        r"|\bgegevens van (?:andere|alle)\b"
        r"|\b(?:zignoruj|ignoruj|pomin|omijaj|wylacz)\w*\b.{0,50}\b(?:regul|zasad|instrukc|polityk"
        r"|bezpieczen|weryfik|potwierdz|operator)\w*|\bbez (?:potwierdz|pytania|weryfik|zgody"
        r"|ogranicz|zatwierdz)\w*|\b(?:zapamietaj|zapisz|zachowaj)\b.{0,30}\b(?:na zawsze|na stale"
        r"|w pamieci)|\bdane innych\b"
        r"|\b(?:hagyd figyelmen kivul|kapcsold ki|kerulj meg|hagyd ki)\b|\b(?:megerosites"
        r"|ellenorzes"
        r"|jovahagyas|engedely|kerdes) nelkul|\b(?:jegyezd meg|mentsd el"
        r"|tarold)\b.{0,20}\b(?:orokre"
        r"|veglegesen|a memoria)|\bminden keres\w* teljesits"
        r"|\bnem kell .{0,40}(?:ellenoriz|megerosit"
        r"|jovahagy|kerdez)\w*|\bmas (?:felhasznalok|ugyfelek)"
        r"|\b(?:yok say|gormezden gel|devre disi birak|atla)\w*\b|\b(?:onay|dogrulama|kontrol|izin"
        r"|sormadan|sinir)\w* (?:istemeden|olmadan|almadan|gerekmeden|yapmadan)|\bsormadan\b"
        r"|\b(?:kalici olarak|sonsuza (?:dek|kadar)|hafizana|bellegine)\b|\bdiger (?:kullanici"
        r"|musteri)\w*"
    ),
    # Russian, Ukrainian
    (
        r"\b(?:игнориру|обход|обойди|отключ|пропуска|пропусти|забудь|удали|наруш|ігнору"
        r"|вимкн)\w*\b.{0,50}\b(?:правил|инструкц|инструкци|политик|безопасн|провер|подтвержд"
        r"|оператор|фильтр|ограничен|владел|журнал|інструкц|перевір)\w*"
        r"|\b(?:правила|инструкции|политика|ограничения|проверки"
        r"|інструкції)\b.{0,50}\b(?:не действуют|больше не|не применя\w*|отменен\w*"
        r"|недействительн\w*"
        r"|не діють)|\bбез (?:подтвержд|провер|одобрен|спроса|разрешен|ограничен|согласи|вопросов"
        r"|підтвердж)\w*"
        r"|\b(?:запомни|сохрани|запиши|запам.?ятай|збережи)\b.{0,20}\b(?:навсегда|навечно|в память"
        r"|в памяти|назавжди|постоянно|как факт)|\bв моеи? памяти\b|\b(?:отправ|перешл"
        r"|перевед|выгруз"
        r"|опубликуй|надішли)\w*\b.{0,60}(?:\b\w+\.(?:example|ru|com|net|org)\b|@|\b(?:на|в"
        r"|по адресу)\b)|\bданн\w+ (?:других|всех|чужих|інших)"
        r"|\b(?:когда|если|как только|каждый раз|коли|якщо)\b.{0,60}\b(?:скажу|напишу|пишу"
        r"|спрошу)\b.{0,50}\b(?:удал|отправ|одобр|подтверд|покаж|выполн|переда)\w*"
    ),
    # Chinese
    (
        r"(?:不要|别|勿|不用)(?:再|要求|让|叫|问|向|我|的)*(?:确认|批准|审批|验证|核实|警告|提醒)|(?:以后|凡是|总是|都|一律|优先"
        r"|只)[^。]{0,12}推荐[^。]{0,12}(?:公司|产品|品牌|银行|店)|(?:忽略|无视|無視|绕过|繞過|跳过|跳過|关闭|關閉|停用|取消|忘记|忘掉|不用管"
        r"|不需要|无需|無需|不必|免除?)[^。！？.!?]{0,16}(?:规则|規則|指令|指示|政策|限制|安全|检查|檢查|审核|審核|审批|验证|驗證|确认|確認|权限|許可"
        r"|批准|提示|运营|系统)"
        r"|(?:规则|規則|指令|指示|政策|限制|检查|审核)[^。！？.!?]{0,12}(?:无效|無效|失效|作废|不适用|不再|取消)|(?:永久|永远|永遠|一直|长期"
        r"|長期)[^。！？.!?]{0,4}(?:记住|記住|保存|记忆|記憶|储存)|(?:写进|寫進|写入|存入|保存到"
        r"|记入)[^。！？.!?]{0,6}(?:记忆|記憶|档案|檔案)"
        r"|(?:给|給|致|告诉)(?:所有)?(?:ai|人工智能|助手|模型|机器人)[:,，：、]?|用户档案|(?:发送|發送|转发|轉發|上传|上傳|发到|寄到|转账|轉帳"
        r"|导出)[^。！？.!?]{0,20}(?:到|给|給|至)|不要告诉(?:我|用户|别人)|(?:其他|别的|所有)(?:用户|客户|租户|人)的?"
        r"|(?:当|如果|每当|只要|一旦)?我(?:说|說|输入|提到|写)[^。！？.!?]{0,16}(?:时|的时候|時|就|必须|必須)[^。！？.!?]{0,20}(?:跳过"
        r"|删除|發送|发送|批准|同意|执行|忽略|显示|转)"
    ),
    # Japanese, Korean
    (
        r"(?:規則|ルール|指示|制限|確認|検証|承認|安全|ポリシー)[^。]{0,12}(?:無視|無効|スキップ|解除|不要|せず|なし)|(?:永久に|ずっと"
        r"|永遠に)[^。]{0,8}(?:覚え|記憶|保存)|(?:他の|全ての|すべての)(?:ユーザー|顧客|利用者)|[^。]{0,20}に(?:送信|転送)(?:し|せ)"
        r"|aiへ[:、]"
        r"|(?:규칙|지침|정책|제한|확인|검증|승인|보안)\S{0,3}[^.]{0,10}(?:무시|건너|해제|비활성|없이|필요 ?없)|영원히 (?:기억|저장)"
        r"|다른 (?:사용자|고객)|(?:로|에게) (?:전송|보내)"
    ),
    # Arabic, Persian, Hebrew
    (
        r"(?:تجاهل|تجاوز|عطل|الغ|انس|احذف)\S*[^.!؟]{0,40}(?:قواعد|تعليمات|سياس|قيود|امان|تحقق|تاكيد"
        r"|موافق|مشغل|نظام|فحص)|(?:قواعد|تعليمات|سياس|القيود)\S*[^.!؟]{0,30}(?:لا تنطبق|لم تعد|ملغ"
        r"|باطل)|(?:بدون|دون) (?:تاكيد|موافق|تحقق|سوال|اذن|مراجع|قيود|حدود)"
        r"|(?:احفظ|تذكر|سجل|خزن)[^.!؟]{0,20}(?:داءما|دائما|للابد|الى الابد|في الذاكر|بشكل داءم"
        r"|بشكل دائم)|(?:ارسل|حول|انقل|انشر|صدر)\S*[^.!؟]{0,50}(?:الى|على|\w+\.\w+)"
        r"|(?:مستخدمين|عملاء"
        r"|المستخدمين|العملاء) (?:اخر|الاخر)"
        r"|(?:نادیده|غیرفعال|دور بزن|رد کن)[^.!؟]{0,40}|(?:بدون|بی) (?:تایید|تاییدیه|پرسش"
        r"|بررسی|اجازه"
        r"|محدودیت)|(?:برای همیشه|همیشه)[^.!؟]{0,10}(?:ذخیره|به خاطر|به یاد)|(?:بفرست|ارسال کن)"
        r"|کاربران دیگر"
        r"|(?:התעלם|עקוף|בטל|דלג)\S*[^.!?]{0,40}(?:כללים|הוראות|מדיניות|אבטחה|אישור|בדיקה|הגבלות)"
        r"|(?:בלי|ללא) (?:אישור|בדיקה|לשאול|הגבלה)|(?:זכור|שמור)[^.!?]{0,15}(?:לתמיד|לנצח|בזיכרון)"
        r"|(?:שלח|העבר)\S*[^.!?]{0,40}(?:אל|ל-)|משתמשים אחרים"
    ),
    # Thai, Hindi, Vietnamese, Indonesian
    (
        r"(?:ละเว้น|ข้าม|ปิด|เพิกเฉย)[^.]{0,20}(?:กฎ|คำสั่ง|นโยบาย|ตรวจสอบ|ยืนยัน|ความปลอดภัย)"
        r"|(?:โดยไม่ต้อง)(?:ยืนยัน|ถาม|ตรวจสอบ|อนุมัติ)|จำไว้ตลอดไป|ผู้ใช้(?:คนอื่น|อื่น)"
        r"|(?:नियम|निर्देश|नीति|सुरक्षा|पुष्टि|जांच|अनुमति)\S*[^.।]{0,20}(?:अनदेखा"
        r"|नजरअंदाज|बंद|छोड़"
        r"|बिना)|(?:बिना) (?:पुष्टि|पूछे|अनुमति|जांच)|हमेशा के लिए याद"
        r"|\b(?:bo qua|phot lo|tat)\b.{0,30}\b(?:quy tac|huong dan|chinh sach|xac nhan|kiem tra)"
        r"|\bkhong can (?:xac nhan|hoi|phe duyet)|\b(?:abaikan|lewati"
        r"|nonaktifkan)\b.{0,40}\b(?:aturan|instruksi|kebijakan|keamanan|konfirmasi|verifikasi)"
        r"|\btanpa (?:konfirmasi|persetujuan|verifikasi|bertanya|izin)|\b(?:ingat"
        r"|simpan)\b.{0,20}\b(?:selamanya|permanen)|\bpengguna lain"
    ),
)

ORDERS_ELSEWHERE: Final = one_of(*_BY_LANGUAGE)
