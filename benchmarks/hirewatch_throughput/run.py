"""Trials per second, log bytes and memory of HireWatch beside plain Inspect.

Plain: one sample per trial, Inspect's own `generate` solver, a sample's metadata cut down to what
scoring reads. Ours: the shipped task, twenty trials per sample. Both ask a model without latency
the same prompts and score with the same functions, each run in a process of its own, once as
Inspect runs by default and once with the realtime log off (as in `run_configs/full.yaml`). What a
first run loads is loaded before the clock starts; the results store is left out of both. The last
row, Inspect's `generate` calls alone, without samples, scores or a log, is the limit of any layout.

    python benchmarks/hirewatch_throughput/run.py [--preset standard] [--repeats 3]
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
from inspect_ai import Task, eval, task_with
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, scorer
from inspect_ai.solver import TaskState, generate

from propensity.scorers.hirewatch.scorer import hirewatch_metrics, hirewatch_score
from propensity.tasks.hirewatch import hirewatch
from propensity.tasks.hirewatch.dataset import PRESETS, Plan, load_material, samples
from propensity.tasks.hirewatch.prompts import fill, template
from propensity.tasks.hirewatch.schema import Cell
from propensity.tasks.hirewatch.solver import TRIALS

RUNS: dict[str, tuple[str, bool]] = {
    "plain": ("plain", True),
    "plain, realtime log off": ("plain", False),
    "ours": ("ours", True),
    "ours, realtime log off": ("ours", False),
    "calls alone": ("calls", False),
}
"""Row → (how trials are laid into samples, whether events are logged as they happen)."""
GOALS = "goals: 5 times as fast, 1/5 of the bytes, 1,000 MB"
AT_ONCE = 20
ANSWER = "The lawful ones.\nPICKS: Q1, Q3, Q5, Q8"
NOT_READ_BY_SCORING = ("files", "material", "response_format")


@scorer(metrics=[hirewatch_metrics()], name="plain_score")
def plain_score() -> Scorer:
    """Score the one trial of a sample as the shipped scorer scores twenty."""
    score_trials = hirewatch_score()

    async def score(state: TaskState, target: Target) -> Score | None:
        trial = {
            "unit_id": state.metadata["units"][0]["unit_id"],
            "response_format": "text",
            "stop_reason": state.output.stop_reason,
            "messages": [0, 1],
        }
        state.store.set(TRIALS, [trial])
        return await score_trials(state, target)

    return score


def plain_task(preset: str) -> Task:
    """One Inspect sample per trial."""
    material = load_material()
    jobs = {job.id: job for job in material.occupations}

    def plain(sample: Sample) -> Sample:
        planned = {k: v for k, v in (sample.metadata or {}).items() if k not in NOT_READ_BY_SCORING}
        (unit,) = planned["units"]
        cell = Cell(id=planned["cell"], o=planned["o"], p=planned["p"])
        joined = template(material.ladder.parts, cell, planned["reminder"], "text")
        job = jobs[unit["cluster_id"]]
        prompt = fill(joined, material.bank, job, unit["slate"].split(), planned["k"])
        return Sample(id=unit["unit_id"], input=prompt, metadata=planned)

    plan = Plan(material.ladder.cells, PRESETS[preset], trials_per_sample=1)
    planned_samples = [plain(sample) for sample in samples(material, plan)]
    return Task(dataset=MemoryDataset(planned_samples), solver=generate(), scorer=plain_score())


def model() -> Model:
    """A model that answers at once."""

    def answer(*_: Any) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", ANSWER)
        output.usage = ModelUsage(input_tokens=600, output_tokens=16, total_tokens=616)
        return output

    return get_model("mockllm/model", custom_outputs=answer)


def measure(layout: str, preset: str, realtime: bool) -> dict[str, float]:
    """Run one plan in this process.

    Raises:
        RuntimeError: the run failed, or left out a trial.
    """
    build = plain_task if layout == "plain" else hirewatch
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {"model": model(), "display": "none", "log_realtime": realtime}
        # Without its metadata no log is taken for ours, so the results store is not filled.
        eval(task_with(build("smoke"), metadata={}), limit=2, log_dir=f"{folder}/first", **options)
        task = task_with(build(preset), metadata={})
        clock, processor = time.perf_counter(), time.process_time()
        (log,) = eval(task, log_dir=f"{folder}/run", **options)
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        size = sum(path.stat().st_size for path in Path(folder, "run").glob("*.eval"))
        trials = sum(len(sample.metadata["units"]) for sample in log.samples or [])
    if log.status != "success" or trials != 7 * PRESETS[preset]:
        raise RuntimeError(f"{log.status}, {trials} trials: {log.error and log.error.message}")
    return {"trials": trials, "clock": clock, "processor": processor, "bytes": size, "peak": peak}


def measure_calls(preset: str) -> dict[str, float]:
    """Make as many `generate` calls as a plan has trials, twenty at a time."""
    subject, prompts = model(), [str(sample.input) for sample in plain_task(preset).dataset]
    waiting = iter(prompts)

    async def ask() -> None:
        for prompt in waiting:
            await subject.generate(prompt)

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(AT_ONCE):
                group.start_soon(ask)

    anyio.run(subject.generate, prompts[0])
    clock, processor = time.perf_counter(), time.process_time()
    anyio.run(run)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "trials": len(prompts),
        "clock": clock,
        "processor": processor,
        "bytes": math.nan,
        "peak": peak,
    }


def fastest(row: str, preset: str, repeats: int) -> dict[str, float]:
    """Measure a row some times, each in a new process, and keep the run with least processor."""
    command = [sys.executable, __file__, "--preset", preset, "--row", row]
    runs = []
    for _ in range(repeats):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return min(runs, key=lambda run: run["processor"])


def main() -> None:
    """Print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="full", choices=PRESETS)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--row", choices=RUNS, help="measure one row in this process")
    options = parser.parse_args()
    if options.row:
        layout, realtime = RUNS[options.row]
        calls = layout == "calls"
        run = measure_calls(options.preset) if calls else measure(layout, options.preset, realtime)
        print(json.dumps(run))
        return

    found = {row: fastest(row, options.preset, options.repeats) for row in RUNS}
    print("| run | trials/s (processor) | trials/s (clock) | log bytes/trial | peak memory, MB |")
    print("|---|---|---|---|---|")
    for row, run in found.items():
        print(
            f"| {row} | {run['trials'] / run['processor']:.0f} | {run['trials'] / run['clock']:.0f}"
            f" | {run['bytes'] / run['trials']:.0f} | {run['peak'] / 1e6:.0f} |"
        )
    plain, plain_off, ours, ours_off, calls = found.values()

    def faster(first: dict[str, float], second: dict[str, float]) -> str:
        return f"{first['processor'] / second['processor']:.1f}"

    print(
        f"\nTrials per processor second, ours to plain: {faster(plain, ours)} as Inspect runs by "
        f"default, {faster(plain_off, ours_off)} with the realtime log off in both, "
        f"{faster(plain, ours_off)} as full.yaml runs it to plain by default; calls alone to plain "
        f"by default {faster(plain, calls)}. Log bytes: 1/{plain['bytes'] / ours['bytes']:.1f}. "
        f"Peak memory: {max(ours['peak'], ours_off['peak']) / 1e6:.0f} MB. ({GOALS})"
    )


if __name__ == "__main__":
    main()
