#!/usr/bin/env python3
"""Compares the metrics of this library with those of scikit-learn, SciPy and seqeval on random sets.

usage: metrics_live.py PROBE [--seed N] [--rounds K] [--golden FILE]

Each round is one random case of each kind: a metric with its options, and batches on one to three ranks, some of which have none.
With --golden compares with answers that tests/reference/metrics_golden.py wrote instead; that needs no package. Without it exits with
77 where a package is missing. Exits 1 and prints the first differences.
"""
import argparse
import json
import math
import random
import subprocess
import sys
import warnings

try:
    import numpy as np
    from scipy import stats
    import seqeval.metrics as sequences
    import seqeval.scheme as schemes
    import sklearn.metrics as scores
    MISSING = None
except ImportError as error:
    MISSING = error

AVERAGES = ["binary", "micro", "macro", "weighted"]
PREFIXES = {"IOB1": "IB", "IOB2": "IB", "IOE1": "IE", "IOE2": "IE", "IOBES": "IBES", "BILOU": "BILU"}
IGNORED = -100


def tensor(dtype, shape, values):
    return {"dtype": dtype, "shape": shape, "values": [None if isinstance(v, float) and math.isnan(v) else v for v in values]}


def shares(draw, rows, make_batch):
    """`rows` cut into ranks of unequal size, some empty, and batches: [[make_batch(rows of it), …], …]."""
    ranks = draw.randint(1, 3)
    cuts = sorted(draw.choice([0, len(rows), draw.randint(0, len(rows))]) for _ in range(ranks - 1))
    parts = [rows[a:b] for a, b in zip([0] + cuts, cuts + [len(rows)])]
    answer = []
    for part in parts:
        batches, size = [], draw.randint(1, 9)
        for first in range(0, len(part), size):
            batches.append(make_batch(part[first:first + size]))
        if draw.random() < 0.1:
            batches.append(make_batch([]))
        answer.append(batches)
    return answer


def some_count(draw, most):
    """Now and then none or one."""
    return draw.choice([0, 1]) if draw.random() < 0.15 else draw.randint(2, most)


# ---- Classes ------------------------------------------------------------------------------------

def some_classes(draw, classes):
    """What may occur: all classes, some, or one."""
    return draw.sample(range(classes), draw.choice([classes, draw.randint(1, classes), 1]))


def class_rows(draw, classes, length, has_logits):
    labels_from, guesses_from = some_classes(draw, classes), some_classes(draw, classes)
    ignored, right = draw.choice([0, 0.3, 1 if draw.random() < 0.1 else 0]), draw.random()
    rows = []
    for _ in range(some_count(draw, draw.choice([8, 60]))):
        row = []
        for _ in range(length or 1):
            label = draw.choice(labels_from)
            guess = label if draw.random() < right and label in guesses_from else draw.choice(guesses_from)
            logits = None
            if has_logits:  # Few values, so that equal ones are frequent.
                logits = [round(draw.choice([-1.5, 0.25, draw.uniform(-3, 3)]), 3) for _ in range(classes)]
                if draw.random() < 0.7:
                    logits[guess] = 3.5
            row.append((IGNORED if draw.random() < ignored else label, guess, logits))
        rows.append(row)
    return rows


def class_batch(draw, classes, length, has_logits):
    dtype = draw.choice(["float32", "float64", "float16"]) if has_logits else draw.choice(["int64", "int32"])
    label_dtype = draw.choice(["int64", "int32"])

    def make(rows):
        shape = [len(rows)] + ([length] if length else [])
        flat = [place for row in rows for place in row]
        predictions = [v for p in flat for v in p[2]] if has_logits else [p[1] for p in flat]
        return {"predictions": tensor(dtype, shape + ([classes] if has_logits else []), predictions),
                "labels": tensor(label_dtype, shape, [p[0] for p in flat])}
    return make, dtype


def chosen(rows, dtype):
    """The labels and classes of all places that count."""
    places = [place for row in rows for place in row if place[0] != IGNORED]
    guesses = [p[1] if p[2] is None else int(np.argmax(np.array(p[2], dtype=dtype))) for p in places]
    return [p[0] for p in places], guesses


def class_options(draw, classes):
    options = {"average": draw.choice(AVERAGES)}
    if options["average"] == "binary":
        options["pos_label"] = draw.choice([1, draw.randrange(classes)])
    elif draw.random() < 0.4:
        options["labels"] = draw.sample(range(classes), draw.randint(1, classes))
    if draw.random() < 0.5:
        options["zero_division"] = draw.choice([0, 1, None])
    return options


def class_answer(kind, options, labels, guesses):
    if kind == "accuracy":
        return float(scores.accuracy_score(labels, guesses))
    if kind == "matthews_correlation":
        return float(scores.matthews_corrcoef(labels, guesses))
    wanted = dict(options, zero_division=np.nan if options.get("zero_division", 0) is None else options.get("zero_division", 0))
    found = scores.precision_recall_fscore_support(labels, guesses, **wanted)
    return float(found[["precision", "recall", "f1"].index(kind)])


def classification(draw):
    classes, length, has_logits = draw.choice([2, 2, draw.randint(1, 12)]), draw.choice([0, draw.randint(1, 5)]), draw.random() < 0.6
    rows = class_rows(draw, classes, length, has_logits)
    make, dtype = class_batch(draw, classes, length, has_logits)
    kinds = ["accuracy", "f1", "precision", "recall", "matthews_correlation"]
    kinds = draw.sample(kinds, draw.choice([1, draw.randint(2, 5)]))
    specs = [{"kind": kind} | ({"options": class_options(draw, classes)} if kind in ("f1", "precision", "recall") else {}) for kind in kinds]
    spec = specs[0] if len(specs) == 1 else {"combine": specs}
    labels, guesses = chosen(rows, dtype)
    return spec, shares(draw, rows, make), lambda: [[s["kind"], class_answer(s["kind"], s.get("options", {}), labels, guesses)] for s in specs]


# ---- Numbers ------------------------------------------------------------------------------------

def column(draw, count):
    kind = draw.choice(["normal", "few", "constant", "far", "integers"])
    far = draw.choice([1e3, -1e6, 1e8])
    one = round(draw.uniform(-2, 2), 3)
    make = {"normal": lambda: draw.gauss(0, 1), "few": lambda: draw.choice([-1.0, 0.0, 0.5, 2.5]), "constant": lambda: one,
            "far": lambda: far + draw.gauss(0, 1), "integers": lambda: draw.randint(-5, 5)}[kind]
    values = [make() for _ in range(count)]
    if kind == "integers":
        return draw.choice(["int64", "int32"]), values
    if values and draw.random() < 0.05:
        values[draw.randrange(count)] = math.nan
    dtype = draw.choice(["float32", "float64"])
    return dtype, [float(np.array(v, dtype=dtype)) for v in values]


def correlation(draw):
    count = draw.choice([some_count(draw, 4), some_count(draw, 150), some_count(draw, 150)])
    (x_type, x), (y_type, y) = column(draw, count), column(draw, count)
    if draw.random() < 0.5 and "float64" in (x_type, y_type):  # Related columns.
        x_type = y_type = "float64"
        y = [2 * b + a for a, b in zip(x, y)]
    wide = [draw.random() < 0.3 for _ in range(2)]
    rows = list(zip(x, y))

    def make(part):
        def shape(is_wide):
            return [len(part)] + ([1] if is_wide else [])
        return {"predictions": tensor(x_type, shape(wide[0]), [r[0] for r in part]), "labels": tensor(y_type, shape(wide[1]), [r[1] for r in part])}
    kind = draw.choice(["pearsonr", "spearmanr"])

    def answer():
        if not rows:
            raise ValueError("an empty set")  # spearmanr says NaN.
        return [[kind, float(getattr(stats, kind)(np.array(x, dtype=float), np.array(y, dtype=float))[0])]]
    return {"kind": kind}, shares(draw, rows, make), answer


# ---- Perplexity ---------------------------------------------------------------------------------

def mean_cross_entropy(places):
    losses = []
    for logits, label in places:
        logits = np.array(logits, dtype=float)
        losses.append(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label])
    return float(np.exp(np.mean(losses)))


def perplexity(draw):
    form = draw.choice(["rows", "rows", "single", "losses"])
    classes, length = draw.randint(1, 30), 0 if form == "single" else draw.randint(1, 7)
    dtype = draw.choice(["float32", "float64", "float16"])
    shift = form != "single" and draw.random() < 0.5
    ignored = draw.choice([0, 0.3])
    width = 1 if form == "losses" else classes
    rows = []
    for _ in range(some_count(draw, 20)):
        rows.append([([float(np.array(draw.gauss(0, 3), dtype=dtype)) for _ in range(width)],
                      IGNORED if draw.random() < ignored else draw.randrange(classes)) for _ in range(length or 1)])

    def make(part):
        shape = [len(part)] + ([length] if length else [])
        return {"predictions": tensor(dtype, shape + ([] if form == "losses" else [classes]), [v for row in part for p in row for v in p[0]]),
                "labels": tensor("int64", shape, [p[1] for row in part for p in row])}

    def answer():
        moved = [(a[0], b[1]) for row in rows for a, b in zip(row, row[1:])] if shift and form != "losses" else [p for row in rows for p in row]
        places = [p for p in moved if p[1] != IGNORED]
        if not places:
            raise ValueError("an empty set")
        value = float(np.exp(np.mean([p[0][0] for p in places]))) if form == "losses" else mean_cross_entropy(places)
        return [["perplexity", value]]
    return {"kind": "perplexity", "options": {"shift_labels": shift}}, shares(draw, rows, make), answer


# ---- Tagged sentences ---------------------------------------------------------------------------

def tag_names(draw, scheme, mode, suffix):
    types = draw.sample(["PER", "LOC", "ORG", "A-B", "x"], draw.randint(1, 3))
    pairs = [(prefix, kind) for kind in types for prefix in PREFIXES[scheme]]
    if draw.random() < 0.3:
        pairs = draw.sample(pairs, draw.randint(1, len(pairs)))
    names = ["O"] + [f"{kind}-{prefix}" if suffix else f"{prefix}-{kind}" for prefix, kind in pairs]
    if scheme != "BILOU" and draw.random() < 0.2:
        names += ["B", "I"] if "B" in PREFIXES[scheme] else ["I", "E"]
    if mode == "default" and draw.random() < 0.2:
        names.append("PER-X" if suffix else "X-PER")
    if mode == "strict" and draw.random() < 0.2:
        names += ["PERI", "PER--I", "PER-O"] if suffix else ["IPER", "I--PER", "O-PER"]
    if draw.random() < 0.1:
        names.append(names[1])  # Two classes of one name.
    draw.shuffle(names)
    return names


def seqeval_answer(options, truth, guesses):
    named = {"suffix": options["suffix"], "zero_division": options["zero_division"]}
    if options["mode"] == "strict":
        named |= {"mode": "strict", "scheme": getattr(schemes, options["scheme"])}
    overall = [["overall_precision", sequences.precision_score(truth, guesses, **named)], ["overall_recall", sequences.recall_score(truth, guesses, **named)],
               ["overall_f1", sequences.f1_score(truth, guesses, **named)], ["overall_accuracy", sequences.accuracy_score(truth, guesses)]]
    if not options["per_type"]:
        return overall
    report = sequences.classification_report(truth, guesses, output_dict=True, **named)
    answer, absent = [], {"precision": options["zero_division"], "recall": options["zero_division"], "f1-score": options["zero_division"], "support": 0}
    for kind in sorted(types_of(options)):
        row = report.get(kind, absent)
        answer += [[f"{kind}_{name}", float(row[key])] for name, key in (("precision", "precision"), ("recall", "recall"), ("f1", "f1-score"), ("number", "support"))]
    return answer + overall


def types_of(options):
    """The types that tags other than O name."""
    types = set()
    for name in options["id2label"]:
        prefix, rest = (name[-1], name[:-1]) if options["suffix"] else (name[0], name[1:])
        if prefix == "O":
            continue
        if options["mode"] == "strict":
            types.add(rest.strip("-") or "_")
        elif options["suffix"]:
            types.add(rest.rsplit("-", maxsplit=1)[0] or "_")
        else:
            types.add(rest.split("-", maxsplit=1)[-1] or "_")
    return types


def tagging(draw):
    mode, scheme, suffix = draw.choice(["default", "strict"]), draw.choice(list(PREFIXES)), draw.random() < 0.25
    names = tag_names(draw, scheme, mode, suffix)
    options = {"id2label": names, "mode": mode, "scheme": scheme, "suffix": suffix, "per_type": draw.random() < 0.5, "zero_division": draw.choice([0, 1])}
    length, right, ignored = draw.randint(1, 12), draw.random(), draw.choice([0, 0.3])
    rows = []
    for _ in range(some_count(draw, draw.choice([5, 20]))):
        real, row = draw.randint(0, length), []
        for i in range(length):
            label = draw.randrange(len(names))
            guess = label if draw.random() < right else draw.randrange(len(names))
            row.append((IGNORED if i >= real or draw.random() < ignored else label, guess))
        rows.append(row)

    def make(part):
        shape = [len(part), length]
        return {"predictions": tensor("int64", shape, [p[1] for row in part for p in row]), "labels": tensor("int64", shape, [p[0] for row in part for p in row])}

    def answer():
        truth = [[names[p[0]] for p in row if p[0] != IGNORED] for row in rows]
        guesses = [[names[p[1]] for p in row if p[0] != IGNORED] for row in rows]
        if not any(truth):
            raise ValueError("an empty set")
        return seqeval_answer(options, truth, guesses)
    return {"kind": "seqeval", "options": options}, shares(draw, rows, make), answer


# ---- Comparison ---------------------------------------------------------------------------------

KINDS = [classification, classification, correlation, perplexity, tagging, tagging]


def random_case(draw, kind):
    """A question for the probe and what the original answers: [[name, text], …], or "UsageError" where it refuses."""
    spec, batches, answer = kind(draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = [[name, repr(float(value))] for name, value in answer()]
        except ValueError:
            want = "UsageError"
    return {"metric": spec, "ranks": batches}, want


def is_close(ours, theirs, name, question):
    ours, theirs = float(ours), float(theirs)
    if math.isnan(theirs) or math.isinf(theirs):
        return str(ours) == str(theirs)
    if name == "perplexity":
        dtypes = {batch["predictions"]["dtype"] for rank in question["ranks"] for batch in rank}
        return abs(ours - theirs) <= (1e-12 if dtypes == {"float64"} else 1e-6) * abs(theirs)
    # A correlation near 0 is a sum of large terms: its digits are counted from 1.
    return abs(ours - theirs) <= 1e-12 * max(abs(theirs), 1e-2)


def difference(question, want, reply):
    """A sentence, or ""."""
    if want == "UsageError":
        return "" if reply.get("error", "").startswith(want + ":") else f"wanted {want}, got {reply}"
    values = reply.get("values")
    if values is None or [v[0] for v in values] != [w[0] for w in want]:
        return f"wanted {want}, got {reply}"
    bad = [f"{w[0]}: wanted {w[1]}, got {v[1]}" for v, w in zip(values, want) if not is_close(v[1], w[1], w[0], question)]
    return "; ".join(bad)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--golden")
    options = parser.parse_args()
    if options.golden:
        with open(options.golden, encoding="utf-8") as file:
            cases = [(case["question"], case["want"]) for case in json.load(file)]
    elif MISSING:
        print(f"skipped: the originals are missing: {MISSING}")
        return 77
    else:
        draw = random.Random(options.seed)
        cases = (random_case(draw, kind) for _ in range(options.rounds) for kind in KINDS)
    probe = subprocess.Popen([options.probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    count = refused = faults = 0
    for question, want in cases:
        probe.stdin.write(json.dumps(question) + "\n")
        probe.stdin.flush()
        line = probe.stdout.readline()
        if not line:
            print(f"the probe ended at {json.dumps(question)[:2000]}")
            return 1
        count, refused = count + 1, refused + (want == "UsageError")
        fault = difference(question, want, json.loads(line))
        if fault:
            faults += 1
            if faults <= 5:
                print(f"{fault}\n  {json.dumps(question)[:1500]}")
    probe.stdin.close()
    probe.wait()
    print(f"{count} answers compared, {refused} of them refusals, {faults} differ")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
