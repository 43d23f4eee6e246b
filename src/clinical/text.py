"""Plain reading of what people write: sentences, clauses, words, negation, frequency, intensity.

Nothing here knows a symptom. English only; clause boundaries and negation scope are rules of
thumb over words, without a parser.
"""

import re
from functools import lru_cache
from typing import Literal

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
STOP_WORDS = frozenset(
    _WORD.findall(
        """
        a about actually after again all also always am an and any anything are aren't as at
        be because been before being both but by can can't cannot come could couldn't did
        didn't do does doesn't doing don't down each either else even ever every few for
        from further get gets getting go going gone got guess had hadn't has hasn't have
        haven't having he he's her here hers him his honestly how i i'd i'll i'm i've if in
        into is isn't it it'd it'll it's its itself just kind kinda know like lot made make
        makes many maybe me mean might more most much my myself need no nor not now of off
        oh ok okay on once one only or other our out over own perhaps probably put quite
        rather really right said same say see seem seems she she's should shouldn't so some
        something sometimes sort still stuff such take than thank thanks that that's the
        their them then there there's these they they're thing things think this those
        though through to too try um until up us used very want was wasn't way we we're well
        were weren't what what's when where which while who why will with won't would
        wouldn't yeah yes yet you you're your yours
        """
    )
)

_QUOTES = str.maketrans("\u2018\u2019\u02bc`\u201c\u201d\u2013\u00a0", "''''\"\"\u2014 ")
_STAGE = re.compile(
    r"(?<![\w*])(?:\*(?!\*)\s*[a-z]+(?:s|ing)\b[^*\n]{0,80}\*(?!\*)|"
    r"[(\[]\s*(?:sigh|pause|paus|shrug|laugh|smil|chuckl|cr(?:y|ies)|sniff|silen|long|looks?|"
    r"nods?|trail)[^)\]\n]{0,60}[)\]])",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"[*_#>~]+|^\s*(?:[-•]|\d+[.)])\s+", re.MULTILINE)
_CONTRACTED = tuple(
    (re.compile(rf"\b(?:{long})\b"), short)
    for long, short in (
        ("can ?not|cant", "can't"),
        ("(do|does|did|is|are|was|were|has|have|had|would|could|should) not", r"\1n't"),
        ("(do|does|did|is|are|was|were|has|have|had|would|could|should|wo)nt", r"\1n't"),
        ("will not", "won't"),
        ("i am|im", "i'm"),
        ("i have(?= been| lost| had| become| stopped| got)|ive", "i've"),
        ("it is|its(?= (?:just|not|hard|so|too|been))", "it's"),
        ("there is", "there's"),
        ("what is", "what's"),
        ("any more", "anymore"),
        (r"(?!(?:it|that|what|he|she|there|let|here|who|how|where|one)'s)([a-z]+)'s", r"\1 is"),
        ("kind of", "kinda"),
        ("every day", "everyday"),
        ("every night", "everynight"),
    )
)
_ABBREVIATION = re.compile(
    r"(?:\b[ap]\.m|\be\.g|\bi\.e|\b(?:mr|mrs|ms|dr|st|vs|etc))\.$", re.IGNORECASE
)
_BOUNDARY = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s|$)|\n+")
_LEAD = re.compile(r"^(?:\s|[-•>#]\s|\d+[.)]\s)+")
_CLAUSE = re.compile(
    r"[;:()\"]|—|\s-+\s|,\s*(?=(?:but|and|so|though|although|because|cause|which|or|then|except|"
    r"while|yet|i|i'm|i've|i'll|it|it's|my|not|just|even|like|especially)\b)|"
    r"\s(?=(?:but|although|though|because|whereas|except)\b)"
)

_NEGATORS = (
    "not|never|no|none|nothing|nobody|neither|nor|without|hardly|barely|cannot|"
    "less|[a-z]+n't|far from|anything but|rarely|seldom"
)
NEGATOR = re.compile(rf"(?:{_NEGATORS})\b")
_SCOPE = re.compile(rf"(?:^|(?<= ))({_NEGATORS}) (?:(?!but |if |because |and )[^ ]+ ){{0,5}}$")
_CANCELLED = re.compile(
    r"(?:^|(?<= ))(?:not (?:only|just|to mention|because)|no (?:doubt|wonder|matter)|"
    r"(?:don't|didn't) (?:know|understand|remember|see|get) (?:if|why|how|when|what|that|whether)|"
    r"(?:can't|couldn't) (?:help|stop|remember|shake|tell|believe|even|stand)|"
    r"(?:don't|won't) (?:deny|lie)|not (?:sure|certain)|(?:doesn't|don't) (?:mean|matter|help)|"
    r"(?:don't|didn't) (?:realise|realize)|isn't (?:just|only)|why (?:can't|don't|am i)) "
)
_UNWANTED = re.compile(
    r"(?:^|(?<= ))(?:(?:don't|didn't|wouldn't) (?:want|like|wish|mean) (?:to|being|it)|"
    r"try(?:ing)? not to|rather not|shouldn't|hope (?:i|it)) "
)
_STRAINED = re.compile(
    r"(?:hard(?:er)?|difficult|tough|tricky|impossible|struggl(?:e|ing)|effort|trouble) "
    r"(?:for me )?(?:to )?(?:[^ ]+ ){0,2}$"
)
_DISMISSED = re.compile(
    r"^(?:[^ ]+ ){0,2}(?:isn't|hasn't been|wasn't|has never been|not) "
    r"(?:[^ ]+ ){0,2}(?:problem|issue|thing|concern|like me|so bad|true)"
)

_KIN = (
    "mum|mom|mother|dad|father|sister|brother|wife|husband|partner|son|daughter|kid|kids|child|"
    "children|friend|friends|boyfriend|girlfriend|fiance|colleague|colleagues|coworker|boss|"
    "neighbour|neighbor|cousin|aunt|uncle|grandma|grandmother|grandpa|roommate|flatmate|teacher|"
    "parents|baby|dog|cat|guy|woman|man|girl|people|everyone|everybody|someone|somebody|patient"
)
_SUBJECT = re.compile(
    rf"(?:^|(?<= ))(?:((?:he|she|they|he's|she's|they're|they've)(?= )(?!.* me )|"
    rf"(?:(?<=^)|(?<=and )|(?<=that )|(?<=because )|(?<=but )|(?<=while )|(?<=when )|(?<=if )|"
    rf"(?<=since )|(?<=so )|(?<=like ))(?:(?:my|our|the|his|her|a|some|most|best|one|of) ){{0,3}}"
    rf"(?:[^ ]+ )?(?:{_KIN})(?:'s)?(?= )(?! and i ))|(?:i|i'm|i've|i'd|i'll|me|my|myself|we)(?= ))"
)
_FREQUENCIES: tuple[tuple[int, re.Pattern[str]], ...] = (
    (
        1,
        re.compile(
            r"(?:(?:\bnot|n't) (?:(?:like|a|really|that|feeling|happen|do|it|this|"
            r"always|exactly) ){0,2}(?:all the time|always|constant|constantly|everyday|often|"
            r"everynight|most days|a lot|all day|regularly))\b"
        ),
    ),
    (
        3,
        re.compile(
            r"\b(?:all (?:of )?the time|constant|constantly|always|nonstop|non stop|24 7|"
            r"every (?:single )?(?:second|minute|moment|hour|waking)[a-z]*|all day long|"
            r"every single (?:day|night|morning)|without (?:a )?(?:break|pause|stopping)|"
            r"never (?:stops?|ends?|goes away|leaves?|lets up|lifts?)|"
            r"(?:doesn't|won't) (?:stop|end|go away|let up|lift)|around the clock|day and night|"
            r"no matter what|permanently|"
            r"always there|day in day out)\b"
        ),
    ),
    (
        2,
        re.compile(
            r"\b(?:a lot|lots|most (?:of the time|days|nights|mornings|evenings)|often|everyday|"
            r"everynight|every (?:morning|evening|afternoon|week|weekend|other day)|daily|nightly|"
            r"frequently|regularly|much of the time|more often than not|"
            r"almost (?:always|constantly)|nearly (?:always|everyday|everynight)|repeatedly|"
            r"over and over|all day|all night|"
            r"(?:four|five|six|4|5|6) (?:days|nights|times)|"
            r"half the time|again and again|more and more|most of (?:it|them|the day))\b"
        ),
    ),
    (
        1,
        re.compile(
            r"\b(?:sometimes|some (?:days|nights|mornings|times)|occasionally|"
            r"now and (?:then|again)|"
            r"once in a while|from time to time|every so often|at times|here and there|"
            r"once or twice|a (?:few|couple) (?:of )?(?:times|nights|days)|(?:one|two|1|2) "
            r"(?:days?|nights?|times?)|on and off|off and on|rarely|seldom|not often|"
            r"comes and goes|depends|every now and then|the odd)\b"
        ),
    ),
)
_LOW = re.compile(
    r"\b(?:a (?:bit|little|tad|touch)|little bit|slight|slightly|somewhat|mild|mildly|"
    r"nothing (?:major|serious|too bad|crazy|big)|"
    r"not (?:too|that|so|super|terribly) |"
    r"not (?:terrible|awful|a big deal|constant)|isn't (?:terrible|constant|too bad|major)|"
    r"as (?:much|well|often|good|easily|many|clearly|sharp|strong|quickly) as|"
    r"moments? (?:where|when|of)|manageable|minor|occasional|small|tiny)\b"
)
_HIGH = re.compile(
    r"(?<!not )(?<!n't )\b(?:really|very|extremely|deeply|incredibly|terribly|awfully|"
    r"badly|seriously|heavily|"
    r"intensely|severely|so much)\b"
)
_UTTER = re.compile(
    r"\b(?:completely|totally|utterly|absolutely|entirely|unbearabl[ey]|at all|beyond|"
    r"overwhelmingly|complete|total|zero)\b"
)
_LASTING = re.compile(
    r"\b(?:for (?:so |very )?(?:weeks|months|years|ages|long|a (?:long|good) (?:time|while)|"
    r"(?:a few|several|many|two|three|four|five|six|the (?:past|last)) [a-z ]{0,12}"
    r"(?:weeks|months|years))|(?:weeks|months|years|ages) now|all (?:week|month|year|day)|"
    r"no matter how (?:much|long)|in (?:weeks|months|years|ages)|since (?:the|my|i|last|we)|"
    r"even after (?:sleep|rest|a full))"
)
_TENTATIVE = re.compile(
    r"\b(?:maybe|perhaps|i guess|i suppose|not sure|might|possibly|i don't know|"
    r"hard to (?:say|tell)|"
    r"probably|if that makes sense)\b"
)


@lru_cache(maxsize=20_000)
def normalise(text: str) -> str:
    """Return lower-case text with straight apostrophes, no markdown, emoji or stage directions.

    Frequent long forms are contracted ("do not" to "don't") so that one spelling is matched.
    """
    plain = _STAGE.sub(" ", text.translate(_QUOTES))
    plain = _MARKDOWN.sub("", plain).lower()
    plain = "".join(c if c < "\u0250" or c in "—…" else " " for c in plain)
    return " ".join(contracted(plain).split())


def contracted(plain: str) -> str:
    """Return lower-case text with its frequent long forms contracted."""
    for long, short in _CONTRACTED:
        plain = long.sub(short, plain)
    return plain


def sentences(text: str) -> list[str]:
    """Return the sentences, each an exact piece of the text, without surrounding blanks.

    An ellipsis before a lower-case word is a hesitation, not an end.
    """
    pieces, start = [], 0
    for end in _BOUNDARY.finditer(text):
        mark, rest = end.group(), text[end.end() :].lstrip()
        hesitates = mark[:1] in ".…" and ("…" in mark or ".." in mark) and rest[:1].islower()
        if hesitates or (mark == "." and _ABBREVIATION.search(text[start : end.end()])):
            continue
        pieces.append(text[start : end.end()])
        start = end.end()
    pieces.append(text[start:])
    cut = (_LEAD.sub("", piece).strip() for piece in pieces)
    return [piece for piece in cut if _WORD.search(normalise(piece))]


def words(text: str) -> list[str]:
    """Return the lower-case words, apostrophes kept, hyphens parted."""
    return _WORD.findall(normalise(text))


def content_words(text: str) -> list[str]:
    """Return the words that carry meaning, in order: no stop words, no lone letters."""
    return [word for word in words(text) if word not in STOP_WORDS and len(word) > 1]


def clauses(sentence: str) -> list[str]:
    """Return the clauses of a sentence as words joined by single blanks."""
    parted = _CLAUSE.split(normalise(sentence))
    return [" ".join(found) for part in parted if (found := _WORD.findall(part))]


def polarity(before: str, after: str = "") -> Literal[-1, 0, 1]:
    """Say whether words around a phrase leave it affirmed (1), negated (-1) or merely named (0).

    `before` and `after` are the clause's words on either side, `before` ending in a blank.
    """
    if _UNWANTED.search(before):
        return 0
    if NEGATOR.match(after) and after.startswith(("not anymore", "no more", "no longer")):
        return -1
    if _DISMISSED.match(after):
        return -1
    return -1 if _SCOPE.search(_CANCELLED.sub("", before)) else 1


def strained(before: str) -> bool:
    """Say whether these words make what follows an effort ("hard to", "struggle to")."""
    return bool(_STRAINED.search(before))


def about_other(before: str, *, otherwise: bool = False) -> bool:
    """Say whether the last subject named in these words is someone else than the speaker."""
    subjects = [match.group(1) for match in _SUBJECT.finditer(before)]
    return subjects[-1] is not None if subjects else otherwise


def frequency(text: str) -> int | None:
    """Return how often: 1 sometimes, 2 a lot, 3 all the time; None where it is not said.

    Appendix D's mapping; a denied constancy ("not all the time") is 1.
    """
    return next((level for level, pattern in _FREQUENCIES if pattern.search(text)), None)


def intensity(text: str) -> int:
    """Return how strongly: -1 a bit, 0 unmarked, 1 really, 2 completely."""
    if _LOW.search(text):
        return -1
    if _UTTER.search(text):
        return 2
    return 1 if _HIGH.search(text) else 0


def lasting(text: str) -> bool:
    """Say whether a long duration is named: weeks or more, or no relief from rest."""
    return bool(_LASTING.search(text))


def tentative(text: str) -> bool:
    """Say whether the speaker is unsure of it."""
    return bool(_TENTATIVE.search(text))
