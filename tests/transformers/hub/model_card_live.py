#!/usr/bin/env python3
"""Compares accelerate/transformers/hub/model_card.h with huggingface_hub. usage: model_card_live.py PROBE [--seed N] [--cards N]

PROBE is the program of tests/transformers/hub/probe/model_card.cpp. It writes random cards. huggingface_hub.ModelCard must read each
README back as the fields given, and its metadata must equal what ModelCardData makes of these fields. Cards with a
fault must be refused with a ConfigError. The seed is printed. Exits 1 at the first difference.
"""
import argparse
import json
import math
import random
import subprocess

import huggingface_hub
import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData

huggingface_hub.utils.logging.set_verbosity_error()

ODD = ["no", "yes", "1.0", "1e3", "1.0e+3", "null", "~", "a: b", "#x", "a #b", "- x", "-", "?", "!tag", "&a", "*a", "%x",
       "@x", "`x", "{", "[a]", "'", '"', "'a'", "0x1f", "0o7", "1_000", "1:30", "2024-01-01", "=", "<<", "|", ">", ".nan",
       "...", "---", " lead", "trail ", "a  b", "\u00e9", "\u65e5\u672c", "\U0001f600", "a\\b", "\x85", "\u2028", "\ufeff",
       "\uffff", "\xa0", "x" * 300, "word " * 60 + "end", "on", "OFF", "True", ".5", "+1", ",", "a,b", "key:", ":", "::"]
PLAIN = ["mit", "en", "org/name", "nyu-mll/glue", "accuracy", "text-classification", "transformers", "f1", "test"]
LINES = ["a\nb", "\n", "a\n", "\na", "a\n\nb", "a\n---\nb", " a\n  b ", "a\tb", "\x00", "\x7f", "a\r\nb", "\r", "x " * 70 + "\ny"]
LISTS = {"languages": "language", "base_models": "base_model", "datasets": "datasets", "metrics": "metrics", "tags": "tags"}
WORDS = ["license", "library_name", "pipeline_tag"]
NAMES = ["license_name", "license_link"]
REALS = [0.0, -0.0, 0.1, 1.0, 1e-5, 1e16, 1e22, 5e-324, 1.7976931348623157e308, -2.5, 123456789.125, 100000.0]


def word(rng):
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(PLAIN)
    if kind < 0.8:
        return rng.choice(ODD)
    characters = "ab :#-'\"\\,[]{}&*!|>%@`?\u00e9\u4e2d\U0001f680\x85\u2029~=01.e+_"
    return "".join(rng.choice(characters) for _ in range(rng.randint(1, 120)))


def name(rng):
    return rng.choice(LINES) if rng.random() < 0.3 else word(rng)


def metric_value(rng):
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice([0, 1, -3, 2**63 - 1, -2**63])
    if kind == 1:
        return name(rng)
    if kind == 2:
        return rng.choice([math.nan, math.inf, -math.inf])
    return rng.choice(REALS) if kind == 3 else rng.uniform(-1, 1) * 10 ** rng.randint(-30, 30)


def eval_result(rng, shared):
    result = {"task_type": rng.choice(shared), "dataset_type": rng.choice(shared), "dataset_name": name(rng),
              "metric_type": word(rng), "metric_value": metric_value(rng)}
    for field in ["dataset_config", "dataset_split", "dataset_revision"]:
        if rng.random() < 0.4:
            result[field] = rng.choice(shared)
    for field in ["task_name", "metric_name"]:
        if rng.random() < 0.4:
            result[field] = name(rng)
    return result


def random_card(rng):
    card = {field: word(rng) for field in WORDS if rng.random() < 0.5}
    card.update({field: name(rng) for field in NAMES if rng.random() < 0.3})
    card.update({field: [word(rng) for _ in range(rng.randint(1, 4))] for field in LISTS if rng.random() < 0.5})
    if rng.random() < 0.7:
        card["model_name"] = name(rng)
        shared = [word(rng) for _ in range(2)]
        card["eval_results"] = [eval_result(rng, shared) for _ in range(rng.randint(0, 6))]
    card["text"] = rng.choice(["", "\n# Title\n", "no line end", "---\nx\n---\n", "\r\n\r\nwindows\r\n", "\ufeff\u65e5\n\n", "\n"])
    return card


def sent(card):
    """The card as JSON: numbers that JSON lacks become objects."""
    card = json.loads(json.dumps(card))
    for result in card.get("eval_results", []):
        value = result["metric_value"]
        if isinstance(value, float) and not math.isfinite(value):
            result["metric_value"] = {"real": str(value)}
    return json.dumps(card)


def data_of(card):
    """The ModelCardData of the fields, as a training script would fill it."""
    fields = {field: card[field] for field in WORDS + NAMES + ["model_name"] if field in card}
    for field, theirs in LISTS.items():
        if field in card:
            fields[theirs] = card[field]
    if len(card.get("base_models", [])) == 1:
        fields["base_model"] = card["base_models"][0]
    if card.get("eval_results"):
        fields["eval_results"] = [EvalResult(**result) for result in card["eval_results"]]
    return ModelCardData(**fields)


def comparable(value):
    """Text in which NaN equals NaN, and types and the sign of zero count, but the order of keys does not."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key!r}:{comparable(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(comparable, value)) + "]"
    return repr(value)


def damaged(rng, card):
    """The card with one fault."""
    card = json.loads(json.dumps(card))
    fault = rng.randrange(4)
    if fault == 0:
        card[rng.choice(list(LISTS))] = ["x", rng.choice(["", "a\nb", "\x00", "\x7f", "a\r"])]
    elif fault == 1:
        card[rng.choice(WORDS)] = rng.choice(["a\nb", "\t", "\x01"])
    else:
        card["eval_results"] = [{"task_type": "t", "dataset_type": "d", "dataset_name": "n", "metric_type": "m",
                                 "metric_value": 1}]
        card["model_name"] = "" if fault == 2 else "m"
        if fault == 3:
            card["eval_results"][0][rng.choice(["task_type", "dataset_type", "dataset_name", "metric_type", "metric_value"])] = ""
    return card


class Probe:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, card):
        self.process.stdin.write(sent(card) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def fault_of(answer, card):
    """What is wrong with the answer for a good card; None when nothing is."""
    if "value" not in answer:
        return f"refused: {answer}"
    theirs, expected = ModelCard(answer["value"]), data_of(card)
    if theirs.text != card["text"]:
        return f"the text is {theirs.text!r}"
    front = yaml.safe_load(answer["value"][4:].split("\n---\n")[0])
    for ours, wanted in [(theirs.data.to_dict(), expected.to_dict()), (front, expected.to_dict())]:
        if comparable(ours) != comparable(wanted):
            return f"read back as {comparable(ours)}\ninstead of {comparable(wanted)}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--cards", type=int, default=1500)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rng, probe = random.Random(options.seed), Probe(options.probe)
    for number in range(options.cards):
        card = random_card(rng)
        answer = probe.ask(card)
        fault = fault_of(answer, card)
        if fault:
            raise SystemExit(f"card {number}: {card}\n{fault}\n{answer.get('value')}")
        bad = damaged(rng, card)
        answer = probe.ask(bad)
        if answer.get("error") != "ConfigError":
            raise SystemExit(f"card {number}: {bad}\nmust be refused, but: {answer}")
    print(f"{options.cards} cards read back, as many with a fault refused")


if __name__ == "__main__":
    main()
