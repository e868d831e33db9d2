#!/usr/bin/env python3
"""Compares the loss of an evaluation with Transformers' Trainer, for every kind of loss.

usage: evaluation_live.py PROBE [--launcher PROGRAM] [--seed N] [--only TEXT]

Where all rows are one batch in one process, Transformers' eval_loss is the mean over all that was judged. This library's Trainer must give that loss
for every batch size and number of processes. Exits with 77 where Transformers is missing, with 1 where a loss differs.
"""
import argparse
import sys
import tempfile

import loop_live
from loop_cases import Case

# kind, and the arguments of its training.
LOSSES = [("classes", {}), ("classes", {"label_smoothing_factor": 0.2}), ("number", {}), ("numbers", {}), ("flags", {}), ("tokens", {}), ("few tokens", {}),
          ("few tokens", {"label_smoothing_factor": 0.2}), ("few masks", {}), ("gpt2", {}), ("llama", {}), ("llama", {"label_smoothing_factor": 0.2}),
          ("answers", {}), ("beyond", {})]
ROWS = 13
ARRANGEMENTS = [(1, 1), (4, 1), (8, 1), (1, 2), (4, 2)]  # Rows of a batch, processes.
TOLERANCE = 3e-6  # Of float32, summed in another order.


def loss_of(answer):
    return answer["evaluation"]["eval_loss"] if "evaluation" in answer else f"{answer.get('error')} {answer.get('stderr', '')}"


def compare(place, kind, arguments):
    """Returns the expected loss, and sentences about those that differ."""
    # The loss of answers is one over all places, padding too: all rows have one length.
    case = Case(f"evaluation of {kind} {arguments}", kind=kind, eval_rows=ROWS, train=False, evaluate=True, lengths=kind in ("answers", "beyond"),
                **arguments)
    spec = place.spec(case)

    def with_batches_of(rows, folder):
        return spec | {"arguments": spec["arguments"] | {"per_device_eval_batch_size": rows, "output_dir": f"{place.folder}/{folder}"}}
    expected = loss_of(place.run_python(with_batches_of(ROWS, "theirs") | {"whole": True}, 1))
    differences = []
    for rows, processes in ARRANGEMENTS:
        loss = loss_of(place.run_ours(with_batches_of(rows, "ours"), processes))
        if not isinstance(loss, float) or not abs(loss - expected) <= TOLERANCE * abs(expected):
            differences.append(f"batches of {rows} on {processes} processes: {loss}, Python's of one batch {expected}")
    return expected, differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="kinds whose name has this text")
    options = parser.parse_args()
    if loop_live.MISSING:
        print(f"skipped: the originals are missing: {loop_live.MISSING}")
        return 77
    loop_live.torch.set_num_threads(1)
    loop_live.transformers.utils.logging.set_verbosity_error()
    loop_live.transformers.utils.logging.disable_progress_bar()
    faults = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        place = loop_live.Workplace(options, folder)
        for kind, arguments in LOSSES:
            if options.only in kind:
                expected, differences = compare(place, kind, arguments)
                compared += len(ARRANGEMENTS)
                faults += len(differences)
                print(f"{kind} {arguments or ''}: {expected:.6f}", *differences, sep="\n  ")
    print(f"{compared} evaluations compared, {faults} differ")
    return 1 if faults or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
