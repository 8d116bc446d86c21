"""Text to offsets: the specification's cases, and properties over four scripts."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propensity.scorers.juice.location import Locator, needle_forms, paragraph_spans

SOMOY = "\u0986\u09ae\u09b0\u09be \u09b8\u09ae\u09df \u09a6\u09bf\u0987\u0964"
SOMOY_DECOMPOSED = SOMOY.replace("\u09df", "\u09af\u09bc")
BHALO = "\u09b8\u09c7 \u09ad\u09be\u09b2\u09cb \u0986\u099b\u09c7\u0964"
BHALO_DECOMPOSED = BHALO.replace("\u09cb", "\u09c7\u09be")
SONGPYEON = "추석에 송편을 먹는다."
PARTY = "\U0001f389 Selamat! \U0001f468\u200d\U0001f469\u200d\U0001f467 datang"
MAYOR = "The **mayor of Seoul** opened it."
WALK = "acara jalan\u2011jalan pagi"


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


CASES = [
    (SOMOY, "\u09b8\u09ae\u09af\u09bc", "nfc", (5, 8)),
    (SOMOY_DECOMPOSED, "\u09b8\u09ae\u09df", "nfc", (5, 9)),
    (SOMOY, "\u09bc", "nfc", (7, 8)),
    (BHALO, "\u09ad\u09be\u09b2\u09c7\u09be", "nfc", (3, 7)),
    (BHALO_DECOMPOSED, "\u09ad\u09be\u09b2\u09cb", "nfc", (3, 8)),
    (SONGPYEON, nfd("송편"), "nfc", (4, 6)),
    (nfd(SONGPYEON), "송편", "nfc", (8, 14)),
    (WALK, "jalan-jalan", "folded", (6, 17)),
    ("She said \u201cit\u2019s khala\u201d twice.", '"it\'s khala"', "folded", (9, 21)),
    (PARTY, "datang", "exact", (17, 23)),
    (PARTY, "\U0001f468\U0001f469\U0001f467", "folded", (11, 16)),
    (MAYOR, "mayor of Seoul opened", "markdown", (6, 29)),
    (MAYOR, "**mayor of Seoul**", "exact", (4, 22)),
    ("line one  \nline two", "one line", "folded", (5, 15)),
    ("wait\u2026 what", "wait... what", "folded", (0, 10)),
    ("He ate kimchi", '"kimchi".', "trimmed", (7, 13)),
]


@pytest.mark.parametrize(("text", "needle", "level", "offsets"), CASES)
def test_worked_cases(text: str, needle: str, level: str, offsets: tuple[int, int]) -> None:
    locator = Locator(text)
    found = locator.find(needle, locator.everywhere)
    assert found is not None
    assert (found.level, found.spans) == (level, (offsets,))


def test_what_is_not_there_has_no_place() -> None:
    locator = Locator(WALK)
    assert locator.find("mawar merah", locator.everywhere) is None


def test_the_texts_of_the_cases_have_the_lengths_that_the_specification_states() -> None:
    assert [len(SOMOY), len(SOMOY_DECOMPOSED), len(BHALO), len(BHALO_DECOMPOSED)] == [
        13,
        14,
        12,
        13,
    ]
    assert [len(SONGPYEON), len(nfd(SONGPYEON)), len(PARTY)] == [12, 27, 23]
    assert len(PARTY.encode("utf-16-le")) // 2 == 27
    assert [len(nfd("송편")), len(nfd("ভালো")), len("ভালো")] == [6, 5, 4]
    assert len(unicodedata.normalize("NFC", "সময়")) == 4


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("Seoul", "seoul"),
        ("１２３", "123"),
        ("ﬁsh", "fish"),
        ("kimchi", "kimchee"),
        ("a b", "ab"),
    ],
)
def test_case_width_and_spelling_are_never_folded(text: str, needle: str) -> None:
    locator = Locator(text)
    assert locator.find(needle, locator.everywhere) is None


@pytest.mark.parametrize("needle", ["**", "\u200d", "...", "\u0964", "“”", " \n ", "( )"])
def test_a_needle_without_text_of_its_own_matches_only_itself(needle: str) -> None:
    locator = Locator("plain words")
    assert locator.find(needle, locator.everywhere) is None


def test_a_punctuation_mark_that_is_there_is_found() -> None:
    locator = Locator("Really?! Yes.")
    found = locator.find("?!", locator.everywhere)
    assert found is not None
    assert (found.level, found.spans) == ("exact", ((6, 8),))


def test_what_the_fence_of_the_prompt_folds_is_found_in_the_text_as_it_is() -> None:
    locator = Locator("그는 【추석】 인사를 \u200e했다")
    found = locator.find("(추석) 인사를 했다", locator.everywhere)
    assert found is not None
    assert (found.level, found.spans) == ("folded", ((3, 15),))


def test_occurrences_do_not_overlap_and_stay_in_their_scope() -> None:
    locator = Locator("하하하하\n\n하하")
    scope = locator.paragraphs[1]
    everywhere, inside = locator.find("하하", locator.everywhere), locator.find("하하", scope)
    assert everywhere is not None and everywhere.spans == ((0, 2), (2, 4), (6, 8))
    assert inside is not None and inside.spans == ((6, 8),)


def test_the_strictest_level_wins() -> None:
    locator = Locator("it\u2019s and it's")
    found = locator.find("it's", locator.everywhere)
    assert found is not None
    assert (found.level, found.spans) == ("exact", ((9, 13),))


NFC_ALPHABET = (
    # Bengali vowels and nukta letters, Hangul jamo and syllables, Latin with marks, Tibetan.
    "\u0995\u09af\u09bc\u09df\u09dc\u09c7\u09be\u09d7\u09cb\u09cc\u1112\u1161\u11ab\uac00\u11a8\ud55c"
    "eE\u0301\u0323\u0327\u030a\u212b\u00e9\u1e69s\u0344\u0f71\u0f72\u0f73\u0f74\u0f80\u0f81 a"
)


def test_chunks_give_the_nfc_of_the_whole() -> None:
    # 200,000 strings; lines keep them apart, since no mark composes with a line break
    rng = random.Random(20260721)
    for _ in range(200):
        lines = ["".join(rng.choices(NFC_ALPHABET, k=rng.randint(1, 9))) for _ in range(1000)]
        text = "\n".join(lines)
        expected = "\n".join(unicodedata.normalize("NFC", line) for line in lines)
        assert Locator(text).view("nfc").text == expected


def test_every_character_leads_back_to_source_characters() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        text = "".join(rng.choices(NFC_ALPHABET, k=12))
        view = Locator(text).view("nfc")
        chunks = dict.fromkeys(zip(view.starts, view.ends, strict=True))
        assert "".join(text[start:end] for start, end in chunks) == text
        rebuilt = "".join(unicodedata.normalize("NFC", text[s:e]) for s, e in chunks)
        assert rebuilt == view.text


WORDS = st.sampled_from(
    [
        "সময়",
        "সম\u09df",
        "ভালো",
        "\u09ad\u09be\u09b2\u09c7\u09be",
        "ক্ষ\u200dয",
        "송편을",
        nfd("김치찌개"),
        "jalan\u2011jalan",
        "“kata”",
        "it’s",
        "**tebal**",
        "_miring_",
        "# judul",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "❤\ufe0f",
        "\U0001f1f0\U0001f1f7",
        "wait…",
        "(x)",
        "e\u0301te\u0301",
        "\ud835",
        "।",
    ]
)
TEXTS = st.lists(
    st.tuples(WORDS, st.sampled_from([" ", "  ", "\n", "\n\n", "", "\u00a0"])), min_size=1
).map(lambda parts: "".join(word + space for word, space in parts))


@given(TEXTS, st.data())
def test_a_copied_stretch_is_found_exactly(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    needle = text[start:end].strip()
    locator = Locator(text)
    if needle:
        found = locator.find(needle, locator.everywhere)
        assert found is not None and found.level == "exact"
        assert {text[span.start : span.end] for span in found.spans} == {needle}
        starts = [span.start for span in found.spans]
        assert starts == sorted(starts)
        assert len(found.spans) == text.count(needle)


REWRITINGS = st.sampled_from(
    [
        nfd,
        lambda text: unicodedata.normalize("NFC", text),
        lambda text: text.replace("“", '"').replace("”", '"').replace("’", "'"),
        lambda text: text.replace("\u2011", "-").replace("…", "..."),
        lambda text: text.replace("\u200d", "").replace("\ufe0f", ""),
        lambda text: " ".join(text.split()),
        lambda text: text.replace("**", "").replace("_", "").replace("#", ""),
        lambda text: f"“{text}”.",
    ]
)


@given(TEXTS, REWRITINGS, st.data())
def test_a_rewritten_stretch_leads_back_to_text_that_reads_the_same(
    text: str, rewrite: object, data: st.DataObject
) -> None:
    assert callable(rewrite)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    needle = str(rewrite(text[start:end].strip()))
    locator = Locator(text)
    found = locator.find(needle, locator.everywhere) if needle.strip() else None
    if found is None:
        return
    form = dict(needle_forms(needle))[found.level]
    for span in found.spans:
        assert 0 <= span.start < span.end <= len(text)
        piece = text[span.start : span.end]
        assert piece == piece.strip()
        assert form.strip() in Locator(piece).view(found.level).text


@given(st.text(st.characters()), st.text(st.characters(), min_size=1))
def test_any_needle_in_any_text_is_answered(text: str, needle: str) -> None:
    locator = Locator(text)
    found = locator.find(needle, locator.everywhere)
    for span in found.spans if found else ():
        assert 0 <= span.start < span.end <= len(text)


@given(st.text(st.sampled_from("ab\n"), max_size=40))
def test_paragraphs_are_those_of_a_split(text: str) -> None:
    pieces = [text[span.start : span.end] for span in paragraph_spans(text)]
    assert pieces == text.split("\n\n")


def test_a_long_text_and_a_long_needle_take_no_time() -> None:
    locator = Locator("ক ভালো " * 30_000)
    assert locator.find("x" * 1_000_000, locator.everywhere) is None
    found = locator.find("\u09ad\u09be\u09b2\u09c7\u09be", locator.everywhere)
    assert found is not None and len(found.spans) == 30_000
