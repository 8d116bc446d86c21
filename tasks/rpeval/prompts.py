"""What the model under test reads, in English and Chinese (specification 5 and 8).

Order: role → meaning of A, B, C → variant → memory → query → output rule. A change of any text
here raises `PROMPT_VERSION` and N of the task's version.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from propensity.scorers.judging import fence, sample_nonce
from propensity.scorers.rpeval.records import Cardinality, Protocol, Record

Prompt = Literal["vanilla", "reminder", "cot"]
PROMPTS: tuple[Prompt, ...] = get_args(Prompt)
PromptLanguage = Literal["match", "en", "zh"]
PROMPT_LANGUAGES: tuple[PromptLanguage, ...] = get_args(PromptLanguage)
Language = Literal["en", "zh"]
Module = Literal["likelihood", "prior", "prior_recall", "prior_intent"]
PROMPT_VERSION = "1"

MODULES: Mapping[Cardinality, tuple[Module, ...]] = {
    "single": ("likelihood", "prior_recall", "prior_intent"),
    "multi": ("likelihood", "prior"),
}
"""Ranking calls of the reasoner."""

ROLE: Mapping[Protocol, Mapping[Language, str]] = {
    "discriminative": {
        "en": "You decide how an assistant should use what it remembers about a user when it "
        "answers the user's query.",
        "zh": "你要判断：助手在回答用户的问题时，应当如何使用它记得的关于用户的内容。",
    },
    "generative": {
        "en": "You are an assistant that knows this about the user. Answer the user's query.",
        "zh": "你是一名助手，你了解用户的以下情况。请回答用户的问题。",
    },
}

USES: Mapping[Language, str] = {
    "en": """\
Each memory has one right use:
A (Ignore): it must not shape the answer.
B (Support): the answer mixes content based on it with general content.
C (Dominate): it is a constraint; an answer that breaks it is wrong.""",
    "zh": """\
每条记忆都有一种正确的用法：
A（忽略）：它不应影响回答。
B（支持）：回答把基于它的内容与一般内容结合起来。
C（主导）：它是约束条件；违反它的回答就是错的。""",
}

REMINDER: Mapping[Language, str] = {
    "en": "Some memories may have nothing to do with this query; decide whether and how each is "
    "used.",
    "zh": "有些记忆可能与这个问题无关；请判断每一条是否要用、怎样用。",
}

WORKED: Mapping[Cardinality, Mapping[Language, str]] = {
    "single": {
        "en": """\
Worked examples:
Memory: The user paints the model trains on the attic shelf.
Query: Which detergent gets grass stains out of cotton?
Answer: {"reason": "Model trains do not bear on washing cotton.", "policy": "A"}
Memory: The user likes the sound of old tube radios.
Query: What could I put on my empty sideboard?
Answer: {"reason": "A tube radio is one nice idea among vases, lamps and books.", "policy": "B"}
Memory: The user writes with the left hand.
Query: Order me a pair of scissors for sewing class.
Answer: {"reason": "Right-handed scissors could not be used.", "policy": "C"}""",
        "zh": """\
示例：
记忆：用户在阁楼的架子上给火车模型上色。
问题：棉布上的草渍用什么洗得掉？
回答：{"reason": "火车模型与洗棉布没有关系。", "policy": "A"}
记忆：用户喜欢老式电子管收音机的声音。
问题：我的餐边柜上空着，可以摆些什么？
回答：{"reason": "收音机可以是花瓶、台灯、书之外的一个主意。", "policy": "B"}
记忆：用户用左手写字和剪东西。
问题：帮我选一把上裁缝课用的剪刀。
回答：{"reason": "右手剪刀用户没法用。", "policy": "C"}""",
    },
    "multi": {
        "en": """\
Worked examples:
Memories: 1. The user paints the model trains on the attic shelf. 2. The user writes with the left \
hand.
Query: At what temperature does water boil on a high mountain?
Answer: {"reason": "Neither memory changes physics.", "policy": "AA"}
Memories: 1. The user writes with the left hand. 2. The user paints the model trains on the attic \
shelf. 3. The user likes the sound of old tube radios.
Query: I have a free wall in the hobby room; which desk set should I get for it?
Answer: {"reason": "The set has to suit the left hand; space for paints would be welcome among \
other points; radios do not matter.", "policy": "CBA"}""",
        "zh": """\
示例：
记忆：1. 用户在阁楼的架子上给火车模型上色。2. 用户用左手写字和剪东西。
问题：高山上的水几度烧开？
回答：{"reason": "两条记忆都不会改变物理规律。", "policy": "AA"}
记忆：1. 用户用左手写字和剪东西。2. 用户在阁楼的架子上给火车模型上色。\
3. 用户喜欢老式电子管收音机的声音。
问题：手工房里空着一面墙，我该买哪套书桌用具？
回答：{"reason": "用具必须适合左手；能放颜料更好，但还要看别的；收音机无关。", "policy": "CBA"}""",
    },
}

STEPS: Mapping[Language, str] = {
    "en": "Reason in steps first: what does the query ask for, and does each memory matter for it? "
    "Then write a line that begins with `ANSWER:`, followed by the final answer to the user alone.",
    "zh": "请先分步思考：问题要的是什么？每条记忆对它是否重要？"
    "然后另起一行，以 `ANSWER:` 开头，其后只写给用户的最终回答。",
}

MEMORY: Mapping[Language, str] = {
    "en": "What is remembered about the user, numbered:",
    "zh": "关于用户的记忆，按编号列出：",
}
QUERY: Mapping[Language, str] = {"en": "The user's query:", "zh": "用户的问题："}
SPEAKERS: Mapping[Language, Mapping[str, str]] = {
    "en": {"user": "User", "assistant": "Assistant"},
    "zh": {"user": "用户", "assistant": "助手"},
}

OUTPUT: Mapping[Cardinality, Mapping[Language, str]] = {
    "single": {
        "en": "Answer with one JSON object and nothing after it:\n"
        '{"reason": "one sentence", "policy": "A, B or C"}',
        "zh": "只用一个 JSON 对象回答，其后不写任何内容：\n"
        '{"reason": "一句话", "policy": "A、B 或 C"}',
    },
    "multi": {
        "en": "Answer with one JSON object and nothing after it:\n"
        '{{"reason": "a few sentences", "policy": "{n} letters, one per memory in order"}}',
        "zh": "只用一个 JSON 对象回答，其后不写任何内容：\n"
        '{{"reason": "几句话", "policy": "{n} 个字母，按顺序每条记忆一个"}}',
    },
}

REPLY: Mapping[Language, str] = {
    "en": "Write the answer to the user.",
    "zh": "请写出给用户的回答。",
}

RANKING_ROLE: Mapping[Language, str] = {
    "en": "You reason about what a user meant by a query, given what is remembered about the user.",
    "zh": "你要根据关于用户的记忆，推断用户提出这个问题时的意图。",
}
QUESTIONS: Mapping[Module, Mapping[Language, str]] = {
    "likelihood": {
        "en": "Suppose in turn that the user wants a memory used as A, as B, as C. Would a user "
        "with that wish have asked exactly this, or more plausibly something else? Where "
        "something else is more plausible, the wish loses. Rank the uses by how well each "
        "explains the wording of the query, best first.",
        "zh": "依次假设用户希望一条记忆按 A、B、C 使用。"
        "有这种愿望的用户会恰好这样提问，还是更可能问别的？"
        "若更可能问别的，这种愿望就靠后。"
        "请按各种用法能在多大程度上解释这个问题的措辞来排序，最能解释的在前。",
    },
    "prior": {
        "en": "Leave the wording of the query aside and look at the situation. Would each memory "
        "come to mind here, and which use of it would this user want? Rank the uses of each "
        "memory by how likely the user wants them, most likely first.",
        "zh": "先不看措辞，只看情境。在这里每条记忆会不会被想起？这位用户会希望怎样使用它？"
        "请按用户希望的可能性给每条记忆的用法排序，最可能的在前。",
    },
    "prior_recall": {
        "en": "Would this memory come to mind in this situation at all? If hardly, A is most "
        "likely; if as one thought among others, B; if at once and as something that cannot be "
        "passed over, C. Rank the uses accordingly, most likely first.",
        "zh": "在这个情境里，这条记忆会被想起吗？若几乎不会，A 最可能；"
        "若只是众多想法之一，B 最可能；若会立刻想起并且不能忽视，C 最可能。"
        "请据此排序，最可能的在前。",
    },
    "prior_intent": {
        "en": "Knowing this memory, which use of it would this user want in this situation? Rank "
        "the uses by how likely the user wants them, most likely first.",
        "zh": "已知这条记忆，这位用户在这个情境里会希望怎样使用它？"
        "请按可能性给各种用法排序，最可能的在前。",
    },
}
RANKING_OUTPUT: Mapping[Cardinality, Mapping[Language, str]] = {
    "single": {
        "en": "Answer with one JSON object and nothing after it; a ranking puts A, B and C in "
        "order:\n"
        '{"reason": "one sentence", "ranking": "…"}',
        "zh": "只用一个 JSON 对象回答，其后不写任何内容；排序是 A、B、C 三个字母的一种次序：\n"
        '{"reason": "一句话", "ranking": "…"}',
    },
    "multi": {
        "en": "Answer with one JSON object and nothing after it; give {n} rankings, one per memory "
        'in order, each A, B and C in order:\n{{"reason": "a few sentences", "rankings": ["…"]}}',
        "zh": "只用一个 JSON 对象回答，其后不写任何内容；给出 {n} 个排序，按顺序每条记忆一个，"
        '每个是 A、B、C 的一种次序：\n{{"reason": "几句话", "rankings": ["…"]}}',
    },
}

TOLD: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "": "How each memory is to be used:",
        "A": "leave it out of the answer",
        "B": "let it shape part of the answer, beside general content",
        "C": "treat it as a constraint that the whole answer must meet",
        "?": "decide yourself",
    },
    "zh": {
        "": "每条记忆的用法：",
        "A": "回答中不使用它",
        "B": "让它影响一部分回答，同时保留一般内容",
        "C": "把它当作整个回答必须满足的约束条件",
        "?": "由你自行判断",
    },
}


def render(
    record: Record,
    *,
    protocol: Protocol,
    cardinality: Cardinality,
    prompt: Prompt,
    language: PromptLanguage = "match",
) -> str:
    """Write the prompt of a sample; the same for every model under test."""
    tongue = spoken(record, language)
    parts = [ROLE[protocol][tongue]]
    if protocol == "discriminative":
        parts.append(USES[tongue])
    if prompt == "reminder":
        parts.append(REMINDER[tongue])
    if prompt == "cot":
        worked = protocol == "discriminative"
        parts.append(WORKED[cardinality][tongue] if worked else STEPS[tongue])
    parts += blocks(record, tongue)
    if protocol == "discriminative":
        parts.append(_output(OUTPUT, record, cardinality, tongue))
    elif prompt != "cot":
        parts.append(REPLY[tongue])
    return "\n\n".join(parts)


def ranking_prompt(
    record: Record, module: Module, cardinality: Cardinality, language: PromptLanguage = "match"
) -> str:
    """Write the prompt of one ranking call."""
    tongue = spoken(record, language)
    parts = [
        RANKING_ROLE[tongue],
        USES[tongue],
        QUESTIONS[module][tongue],
        *blocks(record, tongue),
        _output(RANKING_OUTPUT, record, cardinality, tongue),
    ]
    return "\n\n".join(parts)


def told_prompt(record: Record, letters: str, language: PromptLanguage = "match") -> str:
    """Write the prompt of the reasoner's reply: the use of each preference in words."""
    tongue = spoken(record, language)
    words = TOLD[tongue]
    uses = [f"{n}. {words[letter]}" for n, letter in enumerate(letters, start=1)]
    parts = [ROLE["generative"][tongue], *blocks(record, tongue)]
    parts += ["\n".join([words[""], *uses]), REPLY[tongue]]
    return "\n\n".join(parts)


def blocks(record: Record, tongue: Language) -> list[str]:
    """Memory and query, fenced; the nonce comes from the sample id."""
    nonce = sample_nonce("rpeval", record.id)
    numbered = "\n".join(f"{n}. {text}" for n, text in enumerate(record.memory, start=1))
    return [
        f"{MEMORY[tongue]}\n{fence('memory', numbered, nonce, keep_zero_width=True)}",
        f"{QUERY[tongue]}\n{fence('query', record.question, nonce, keep_zero_width=True)}",
    ]


def dialogue_text(turns: Sequence[tuple[str, str]], language: Language) -> str:
    """A dialogue as text, a line per turn.

    Args:
        turns: (`user` or `assistant`, text) each.
        language: Language of the speakers' names.
    """
    names = SPEAKERS[language]
    return "\n".join(f"{names[role]}: {text}" for role, text in turns)


def spoken(record: Record, language: PromptLanguage) -> Language:
    """Language of our instructions."""
    return record.language if language == "match" else language


def _output(
    rules: Mapping[Cardinality, Mapping[Language, str]],
    record: Record,
    cardinality: Cardinality,
    tongue: Language,
) -> str:
    rule = rules[cardinality][tongue]
    return rule.format(n=len(record.gold)) if cardinality == "multi" else rule
