"""Sentences of the specification's table, and kappa."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from propensity.scorers.juice.location import Span
from propensity.scorers.juice.sentences import kappa, sentence_spans, touched

ENGLISH = (
    "Dr. Kim visited at 5 p.m. yesterday. She ate 3.5 bowls! “Really?” he said.".replace(
        "“", '"'
    ).replace("”", '"')
    + "\n\nNew paragraph here."
)


def test_english_sentences_and_a_gold_span() -> None:
    sentences = sentence_spans(ENGLISH, "en")
    assert sentences == ((0, 36), (37, 55), (56, 74), (76, 95))
    start = ENGLISH.index("3.5 bowls")
    assert (start, start + 9) == (45, 54)
    assert touched(sentences, [Span(45, 54)]) == {1}


@pytest.mark.parametrize(
    ("text", "language", "count"),
    [
        (
            '안녕하세요. 저는 김치찌개를 좋아해요! 정말요? 네, 3.5그릇을 먹었어요. "맛있다." '
            "그가 말했다.",
            "ko",
            6,
        ),
        (
            "Pak Budi pergi ke pasar, mis. Pasar Senen. Ia membeli 2,5 kg beras! Apakah murah? "
            "Dr. Sari setuju.",
            "id",
            5,
        ),
        (
            'আমি ভাত খাই। তুমি কি খাও? সে বলল, "চা দাও।" ডা. রহমান এলেন।\n\n**শিরোনাম**\nনতুন অনুচ্ছেদ।',
            "bn",
            7,
        ),
    ],
)
def test_numbers_of_sentences(text: str, language: str, count: int) -> None:
    assert len(sentence_spans(text, language)) == count


@pytest.mark.parametrize("language", ["en", "ko", "id", "bn"])
@given(text=st.text(st.characters(), max_size=60))
def test_sentences_are_trimmed_ordered_and_hold_a_letter_or_digit(text: str, language: str) -> None:
    end = 0
    for sentence in sentence_spans(text, language):
        piece = text[sentence.start : sentence.end]
        assert end <= sentence.start < sentence.end
        assert piece == piece.strip() and "\n" not in piece
        assert any(character.isalnum() for character in piece)
        end = sentence.end


def test_lone_surrogates_do_not_stop_the_splitter() -> None:
    assert sentence_spans("One \ud835 here. Two.", "en") == ((0, 11), (12, 16))


def test_a_span_over_a_break_touches_both_sides() -> None:
    sentences = sentence_spans("One. Two.\nThree.", "en")
    assert touched(sentences, [Span(3, 6)]) == {0, 1}
    assert touched(sentences, []) == set()


def test_kappa_of_the_specification() -> None:
    assert kappa(40, 10, 20, 130) == pytest.approx(0.625)
    precision, recall = 40 / 50, 40 / 60
    assert round(recall, 4) == 0.6667
    assert round(2 * precision * recall / (precision + recall), 4) == 0.7273


@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (5, 0, 0, 0), (0, 0, 0, 5)])
def test_kappa_without_variation_is_not_defined(counts: tuple[int, int, int, int]) -> None:
    assert math.isnan(kappa(*counts))


def test_kappa_of_opposites_and_of_chance() -> None:
    assert kappa(0, 5, 5, 0) == -1
    assert kappa(1, 1, 1, 1) == 0
