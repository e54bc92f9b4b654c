"""The weights of the token estimate: data, fitted against o200k_base (Z-1).

The weights are the solution of a linear program over some 60 languages, code, tables, logs, terminal output and random
texts: as close above the true count of English and code as possible, and nowhere below the true count but for letters
of one script in random order. `tests/session/tokens/count.py` makes the table of characters.
"""

from __future__ import annotations

WORD, WORD_IN_CAPITALS = 0.95, 1.6
"""A common word with the space before it, capitalised or not, and one in capitals."""
LETTERS: tuple[tuple[str, float], ...] = (
    ("etaoinsrl", 0.25), ("dhcumpg", 0.27), ("fbywvk", 0.8), ("jxqz", 1.13),
)  # fmt: skip
"""Letters of other words, by how common they are: rare ones mean that a word is not English."""
UPPER, UPPER_AGAIN = 0.5, 0.7
"""A capital that begins a word, and each one of a word in capitals."""
CONSONANTS = 2.6
"""Each consonant in a row from the fourth on."""
DIGIT, NUMBER, BESIDE_DIGIT = 0.34, 1.3, 0.34
"""A digit, a number, and a letter beside one."""
SPACE, LINE, CONTROL = 0.06, 0.32, 1.02
FREQUENT_SIGN, SIGN, SIGNS = 0.41, 0.79, 0.11
"""Letters of other words, by frequency: rare ones mean that a word is not English."""
NON_ASCII_RUN = 0.18
"""A run of characters beyond ASCII."""
BLOCKS: tuple[tuple[int, float], ...] = (
    (0x80, 0.9), (0x250, 1.0), (0x370, 0.48), (0x400, 0.41), (0x530, 0.4), (0x590, 0.38), (0x600, 0.42), (0x900, 0.5),
    (0x980, 0.69),
    (0xE00, 0.49), (0xE80, 0.58), (0x1100, 1.0), (0x1780, 0.58), (0x1800, 1.0), (0x1E00, 0.5), (0x1F00, 1.0),
    (0x3000, 0.5), (0x3040, 0.69), (0x3100, 1.0), (0xA000, 1.0), (0xAC00, 0.86), (0xD7A4, 1.0), (0xFF00, 1.9),
    (0xFFF0, 1.0),
)  # fmt: skip
"""First code point of a block, and the weight of its characters that are one token alone."""
EMOJI, BEYOND = 2.25, 3.95
"""Characters beyond the basic plane: U+1F000 to U+1FAFF, and others."""
CHARACTERS = (
    "c-rk-U5?y14xUTefc0(x<|XD7HXy!>0CkAXjdtEP*lAStl9XgiE?0LtliA%MZ6s*7e<X_hNPeW;zy0?1!6_xjl!oqDoAY^|VIDnr"
    "h#tcj78=qp4m5l3he2M4kSIm@sbk53>ERf<-~8h937wylA?$68`<uAhumF!w+Yy*e${~tSS@`z$HZTsSL!O)3XC@e720sp?D}u%3"
    "Q-lP~Lo)jqhk->m(+b<Tk9LT~L$q<L7%nS>Rr;}9vmb2FFsD)EUT43l$f9C$VRp+J%Ib$9Zs{)`_t)o#-Fx}c|K1<}7{?W66M7QG"
    "i30pA(k-?SUEVlSS==-P7pDOhUCf-ENH6-sF~Ty2dDi<|6xA&mD)LX4>Eu3))2#1LV|00Zy)k6aI0ekO_#v#5i%y<ag&&p~36Zu5"
    "cy+@Z-Rh<eCo;cFBg*?_d^g1wp)$XLdT8%&<`ngPoW^xh`DI0VpN`qxiZUB9E<x}!PXi4RK}6m0yG_G5XMpPaNrt&FDm`<YZmHdY"
    "&+L6SJ62n+1A=-p5e$Pf$M((3vPuSyCvPo>YT)(#<K>SFSk<%iHy^Lxaop|Smmcvw_+RwG{eIyQFR%BH&i7|?{>KwHJbt@hEAokh"
    "uJb0IGMLk)Y~MLd7CU~3{}*LEJHGsJv5x!ecONfrjBt$q=j(e~`~Vc*KAzz1-T~$5(EohhJvh5Kc@K6)!WvQMbMqh(L~@XXi&=Bj"
    ">}LseoD)cQ)ZbaWw^iF0nRAZ~<-a2tDXzmBB)+9_A8L6BBgkz+hW4jCgr|5Dvtay~-TTnQ`fl2=k-7{3Kf>QXZ1r8={B84<wQ(zL"
    "Y`6&Xl15_;j-3<U;=pwSY>hfZ8KFk}&0VkW<o`NTCRTh6g49!~mj;;X*|(qE|F7(S``3TZ|L@o9|7QRHmKpEGd%s1V>!%L?f5`vB"
    "(bx4r%Qj6zp(A5uCW^#yDr|qMG<ujJKzyVlfSDoh_W1gd{Qps#-Rqj4+&<&~SIhshj+YAu+Wr4C|Nq+l|1n*>Jh8|3^Z(}L{yjE("
    "&;NgQ{{QL!|KI*U!>~aJF|C0@kaL;?FVRQTCW+8$oTn{1q{*+C5F)t^)|en7qXVfC&=ahlgU~=ZgiVeMd10N_h5&g*lQPZPt&&Sl"
    "2{%}6fn?MZXiEfS3>IY+eNDK&Cd?@nCQHU-A(LExuv=<)rlo!G>rAW8;paFHOH5mkrFao6@g%hkBWY<tG04R<5j$c3Fc3#C^~xmT"
    "Vy=6Z4RG(|fD;7?kESdgkw-4&hd$$~Kw}b8;@l9@D#Ff-sAKaoTL3Fxgq*lEtTb_g)h(0LHq*LBFPGi2B%bA|VB{I)KM=&D=NQV0"
    "IcsD?!k%hpDG;-kHarTPWE~Vtt}A~^$w0WD@?KW)V^!CYER+&nmVr_|EHb5<hLfHJ5R8B$Dg_yw`a`O|W1ge<ATvriXWnHp^Z@Pk"
    "8NnfgX+*##Yh4gVB;Mq*RHaiM5T;0|t-P!%1w~Rk&Wv?^VC8OFc;{$X3(7-7jlu-0RWX#FG>OHG5g-_5llSwIAPfVGVgij~Ms_NQ"
    "=q=$e3Ev$lpcT@Tf`G#*rcix_>gd*7CW6K$R84#8w7uv5m1ff@#uJ|#McJ&gi2@fCY|*hK7Z!mt0?cAs@%6S*V5j0cf&mauvJ#N|"
    "wgVASd+wfNTv*XhVkD5D0GqBXW@jcdISPu@qpGzH>8O^*eLh&k+F0PKUax&Y*v$e>J7CEcglh!j$zIz0UKI|4*Dx)LmQ8dbBZ}-u"
    "PMuFq14av45>JRkFS3%T5o?lwX(M{d&@RRSLy!f)$a=E*BEPIF<gh`BcU6X5vY^Ji;?cA_<d%J=Ku@C*p8KmgQlWR^Jc~qAH4U>i"
    "L2~#tC`wR`f+BOtFvh5B)@56_n^^Z20$T3}bN42o>5*IsB!@y{-r9)Ml4eq6iQu!sb`qUw1D<5Os8CQ(1B|=OGS{Mg84<~|nGVRH"
    "pe`RJ9J2*D13&IfD7l?6rW(QBN%sK87abloOvHz71hl^rmLTr?u-L@LtNO65|MMe*Szm)*&Sc{%Hdr8U5Hym?dPa=U_RT>vk|9`7"
    "t$5O)Y5gm)wNGj$bsM#e2a9o{u#Gg{>Tr;2UQ(?{q?5E|&__uCOEwi)+>1G%6?N!)WIo8I)0k8WK3Z*i|GmbULq8UtETbCEEi7Rh"
    "=amN-Y|j9FJFE10LcGpEQ8S62uY24UwRVnNB7A8_($PRHyr7jKH9I7&AH`8-1eM*J9Zs=g*&z%yLE1VocfcGzE>12iIp<WruK}$z"
    "GZF9*1o%-ZxNfO2VEa^9oZKD!RH6!*({gzx=S*vigyi4Yv&oM))3`NFCz&J;3v~fwC6YNv!^*L@$~C0<$Dw=ekmfT9wg<I2SVvZS"
    "*mKo>8=0Op7^`quQpqS>nIklAy+z}j3|ZaghZU#jErvEmm)u7gEp%KpTk4jyWwp##cI??GO7|)%xe|vG${6T!hm0;xGk2m4A5MqG"
    "x8n(6c4F~Og1DMQ!(_IB`a`9FuxHLfoJ?3gs}WmWpY0YLF3t;6o!EPdv#5=X^4WkTUvbTFHWZdwi)UtY*i$>Z1eT=13@z4m1p&=9"
    "EPs-%TrwBr2$wXGhRoI2)<iY4mQgE6mXf)eRTA%-lb~ueQ^r^<NHZU3$)q0;@vw<_GUrrZk}{n=spuhCky5EIVI~F=vtgHovmN$5"
    "3d#XB(*jKfz5~g_{wrPY&|dJ;x?n_Z0sKZF#z<N7r!An`U+q?n&z;e3N(uh;t^KNVacXoy*WXww`&M?G&Ad@)Be#}*x&bYfgAArt"
    "1j|sQA1~mpd<`-IE3fi3@li6vXB#L*wOt}98P%q6v9}E;_vIW&b0W?hj^ikExfoXEx+I*}(=ti4SoFS;E5j95i(`{2G>b=LPQ_O$"
    "0jx^$;~?;yqq2`hoi)gVJfuqA5*+_kY2MUKZHl@6l;d&74XLp^9a~M6aZ^Rnq`^+ZgjZJ<)vjq<$umZt2jxX_n+Dt<@CJ)Xut+uG"
    "HmNt1Kxz!PY;1mJ7J);6WVOnb{SVTXtCEDR{D1?!MLf7af0wUtQxrc}-t&#Ir`Mppr`!$c$g5mY8m%g%O#hD8Y8n;|c)NtXh2?(O"
    "gi==zH&8omTC7$zh$l#v9CcQ7%sVqdUM+Q_(<mpUDrW!`hFDUdz&n)1zrOzda`t~nI|+kv<C=@=PGU@463I5&G?Hy&-{`SDOsM5A"
    "U+Zw=8k3O@YC_-e1xwLk%<POUpD`aZ@KaQ<8Hw>neGhW$qc}fc>#z3z>WY0$XAL*zgF6)p0g40(UEKl^8o*U4u`M+krGNJSKl}fm"
    "{r}^L5=&O1co|IO-dtRZlRlZ^{&@;(e>gF>A+3)R_QKcGCl-C3rjNvKKHk5Y;XPh8`+v7*;iw+Jzq$W+lUujW|1VNu=?=AAStW~{"
    "`wHCFi2DnfQRnY|n7T#;xjz2(`~Rm{-bddoA9MTZQJEnwtgSD;${(?G2NFNT`)rloVtHY)Q^A8gw@zQh{Ou@N7E$%>if`9tUSaUx"
    "Z}|Va-~V(R=28=p?8lsry_^PoP@0tXTL*8WI<5cT@_Y^W;!{$_4WOI(#9}dMk2ilH_9!kl%CaB6y|<({zyFc>p8Ef-^S>6KKCRjj"
    "wQtlPz8|a5$St*8C3YIDr5s=P|6?B^u2?7coHvWa4gP-g{{QWbf!-ikx|E`&`n6(rkEm*?#ED)@msGof+g0<f*<j?1o)){>-8tv~"
    "^U!~1{=ePsuiSs}m<--AVnK3z@VJ4imTb|T$5GLIJZF+TO7?&@3R9O!QZ@k7F{YKRSy}nw*Hiv4_ae99u#2?7*PwmyfGd4}NmZm%"
    "5U8Vk<M*`n`1+&s{}II0a8h(#hBVVWb!+dmbeOo0Hf25Wuu310cK&|>6nlZ6Hg{@VDm{hAuttqMr|*B?*$3c`j`U*|gFod<&z!kx"
    "sk6kbvo~LT|91hmbYcSgv=?|e@g;6sZzksxAl>TMv3%-r9o};@{$FSBc|q%O@zjf8ZW|jlaP}d#&oW&+yWK7zeS6U7F=iKwAHM(n"
    "?eqAhj}P=mKI{L#q5ePX|7WZJ&xzyn`@f&-``>T=!<uf}>FC6M`u}JD?|<3<ql^6Yll}dl`wM^G3bfU~#)WZW7;IM#Qt(m#?tUkp"
    "(~}+3_#X(|R~`"
)
"""Tokens of each character of the basic plane alone: two bits each, compressed, in base 85."""
WORDS = """
abort above absolute accept access account action actions active adapter add added address admin after again agent
agents ai alias align aligned all allow already also amazon an and another answer any api app append apply
approval are args argument arguments array as asked async at attr attribute audit auth author auto autocomplete
available await aws back background base be been before below between bg big bin binary binding bit block body
bool boolean border both bottom box break browser buffer build but button by byte bytes cache calendar call calls
can cancel cannot case cast ce change changed changes char check child choice choose chunk cl class classic clear
client clock close code col color column columns com command commands compile complete conditions config console
const constructor container content context continue control convert copy copyright core correct count counter
coverage create created css current cursor custom data database date day declare def default defaults define
defined delete deleted delivery delta dependencies desc description descriptor details dev dict digit dir
directory disabled display dist div do doc docs document documentation does done drop dropdown due each edit
either element else em email emoji empty enabled encoding end ended endpoint enter entry enum env error errors es
esc even event events every example except exception excluded execution exists export extension extensions false
family fetch fg field fields file filename files filter filters find first flex float focus following font fonts
for form format found frame frames free from full func function future gateway gc generate get git github given
global go google group handle handler has hash have head header headers height help here hidden history home hover
how href html http https icon id identity if ignore image img import in include includes including indent index
info init inline input insert install int integer interface internal into invalid invoke io ip is it item items
its java join js json key keys keywords kind label lane last latest ledger left len length let level li lib
library license like limit limited line lines link lint list load local log login logs long machine main make many
map mapping margin marked match matches max may md member message messages method mime min mit mode model models
module more ms msg multiple must name named names namespace nav need new next no node non none not note nothing
notice now null number obj object objects of off offset old on once one only op open option options opts or order
org original os other otherwise out output overflow own owner package padding page parameters params parent parse
parser part partial parts password paste path pattern payload pending permission personal place please plural
pointer popup position post prefix process program promise prompt protocol prototype provided provider providers
proxy public purpose push put px python query quiet radius raise range raw re read readonly reason record
reference regex related rem remove repeat replace report repository request require required reset response result
results retry return returns right rights role root row rule rules run runner runtime same sans save schedule
schema schemas scheme scope script scripts sdk search see seen select selected selection selector self seq
sequence server service session sessions set sh sha shell short should show sidebar signal since single site size
slice so software solid some source span special specific specified src standard start started starts state static
status still stop store str stream streams strict string struct style subject submit such summary super support
sure svg sys system table tag tags take target task td temp template term test tests text th than that the their
them theme then there these they thinking this thread time timeout timestamp title to toggle token tokens too tool
tools top total tr translate true try ts tuple turn two type types ui uint ul undefined under undo unicode unknown
up update updated url usage use used user username users using valid value values var variables vars verbose
verify version view views void wait want was way we web weight what when where whether which while whole widget
width will with within without word work workflow works would write written yes you your
"""
"""Words and parts of names in English and code, each of which is one token."""
