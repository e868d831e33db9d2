"""MiniLM fine-tuned for two epochs by the Trainer of each side, with an evaluation after each.

- Rows, batches, optimizer, schedule and dropout are those of the suite trainer, which measures a step; the rate is 5e-5.
- A round is a run of each side with another seed (1, 2, …), which decides the head, the order and dropout, on each side in its own way.
  Errors and losses are means over rounds, in the columns of minima and of medians alike.
- **Time** is from before the program is started until it has ended.
"""
import dataclasses
import statistics

from harness import Summary
from report import Row, Share
from suites import trainer
from suites.trainer import MODEL, PACKAGES, PROGRAMS, ROUNDS  # noqa: F401 (PACKAGES, PROGRAMS and ROUNDS are asked of a suite)

TITLE = "Fine-tuning by the Trainer: whole runs"


@dataclasses.dataclass(frozen=True)
class Within:
    """Ours and theirs may differ by at most `points`."""
    points: float

    def text(self, unit):
        return f"theirs ± {self.points:g}"

    def met(self, row):
        return abs(row.ours.minimum - row.theirs.minimum) <= self.points


def mean(values):
    return Summary(statistics.fmean(values), statistics.fmean(values))


def measure(setting, say):
    suite = trainer.Suite(setting, say, trainer.prepare(setting, say))
    short = ("--max_steps", suite.steps[1]) if setting.quick else ()
    pairs = [suite.runs(MODEL, "--num_train_epochs", 2, "--learning_rate", "5e-5", "--eval_strategy", "epoch", "--seed", seed, *short)
             for seed in range(1, setting.rounds + 1)]

    def row(what, unit, target, quantity, summary):
        return Row(what, unit, *(summary([quantity(report) for report in reports]) for reports in zip(*pairs)), target)

    return [row("errors in the test rows after two epochs, mean", "%", Within(1.5), lambda report: 100 - 100 * report["eval_accuracy"], mean),
            row("loss of the test rows after two epochs, mean", "", None, lambda report: report["eval_loss"], mean),
            row("a whole run", "s", Share(0.42), lambda report: report["run_seconds"], Summary.of)]
