"""The list of samples that `inspect view` shows of a benchmark."""

from collections.abc import Sequence

from inspect_ai.viewer import TaskSamplesColumn, TaskSamplesView, ViewerConfig


def samples_view(
    name: str, scorer: str, keys: Sequence[str], *, facts: Sequence[str] = ("answer",)
) -> ViewerConfig:
    """One row per sample: status and id, facts of it, keys of its score, error.

    Texts of models are shown as they are, never as markup.

    Args:
        name: What the rows are ("trials").
        scorer: Name of the scorer.
        keys: Keys of the score's value.
        facts: Columns of Inspect's own before the score.
    """
    own = [TaskSamplesColumn(id=one) for one in ("sampleStatus", "sampleId", *facts)]
    scores = [TaskSamplesColumn.score(scorer, key) for key in keys]
    return ViewerConfig(
        trust_content=False,
        task_samples_view=TaskSamplesView(
            name=name,
            columns=[*own, *scores, TaskSamplesColumn(id="error")],
            compact_scores=True,
            multiline=False,
        ),
    )
