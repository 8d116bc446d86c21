"""A set to start from: one Latin block of the specification, with its dialogues."""

import json
import re
from uuid import uuid4

_QUERIES = {
    "q1": "Find me a place in the hills for this weekend.",
    "q2": "Which show tonight should I book: 6, 8 or 11 pm?",
    "q3": "I land at 7 pm; how do I reach the centre, 90 minutes away?",
}
_PREFERENCES = {
    "p1": (
        "The user usually turns in around ten.",
        [
            ("user", "My neighbour's party went on past midnight and I heard all of it in bed."),
            ("assistant", "That sounds tiring. Did earplugs help at all?"),
            (
                "user",
                "A little. I had read my chapter and put out my lamp at ten, as every day.",
            ),
            ("assistant", "A quiet talk with the neighbour may help next time, before a party."),
        ],
    ),
    "p2": (
        "The user feels queasy on long bus rides.",
        [
            ("user", "Our club went to the lake by coach, and I sat in front with a paper bag."),
            ("assistant", "Oh dear. Was the road very winding?"),
            ("user", "Flat as a plate. After an hour I was green, the same as on school trips."),
            ("assistant", "Ginger sweets and a window seat help some people on the road."),
        ],
    ),
    "p3": (
        "The user has a small dog at home.",
        [
            ("user", "There is fur on my black coat again. What takes it off without a roller?"),
            ("assistant", "A damp rubber glove works well. Is it the season for shedding?"),
            ("user", "She sheds all year, tiny as she is. The basket by the stove is full of it."),
            ("assistant", "Brushing her twice a week would keep much of the fur off your coat."),
        ],
    ),
}
_LABELS = {"q1": "ABC", "q2": "CAB", "q3": "BCA"}
_WHY = {
    "q1": ("Bedtime does not matter there.", "Near a railway is a plus.", "It has to take dogs."),
    "q2": ("11 pm is too late.", "No ride is needed.", "An early show leaves time for a walk."),
    "q3": ("A quick way is a plus.", "A long bus ride is out.", "The dog stays at home."),
}


def new_set(name: str) -> dict[str, str]:
    """Four files of a set with one block, to be edited and added to.

    Raises:
        ValueError: the name does not make a folder name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name):
        raise ValueError(f"{name!r} is no folder name; use letters, digits, - and _")
    canary = f"propensity-canary {uuid4()}"
    rows: dict[str, list[dict[str, object]]] = {
        "queries": [
            {"id": key, "lang": "en", "domain": "travel", "text": text}
            for key, text in _QUERIES.items()
        ],
        "preferences": [
            {
                "id": key,
                "lang": "en",
                "explicit": explicit,
                "dialogue": [{"role": role, "text": text} for role, text in turns],
            }
            for key, (explicit, turns) in _PREFERENCES.items()
        ],
        "single": [
            {
                "id": f"single-{query}-{preference}",
                "block": "block-1",
                "query_id": query,
                "preference_id": preference,
                "label": _LABELS[query][place],
                "intent": "Say in one sentence what the user wants.",
                "why": _WHY[query][place],
            }
            for query in _QUERIES
            for place, preference in enumerate(_PREFERENCES)
        ],
        "multi": [
            {
                "id": f"multi-{query}",
                "query_id": query,
                "preference_ids": list(_PREFERENCES),
                "labels": _LABELS[query],
                "why": list(_WHY[query]),
            }
            for query in _QUERIES
        ],
    }
    return {
        f"{name}/{part}.jsonl": "\n".join(
            json.dumps(row, ensure_ascii=False)
            for row in (
                {
                    "kind": f"rpeval-{part}",
                    "schema_version": 1,
                    "canary": canary,
                    "version": "0.1.0",
                    "provenance": name,
                    "synthetic": True,
                },
                *found,
            )
        )
        + "\n"
        for part, found in rows.items()
    }
