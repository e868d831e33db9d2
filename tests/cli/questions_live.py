#!/usr/bin/env python3
"""Interviews of `accelerate config` beside the original's: the same questions in the same order, and files with the same fields.

usage: questions_live.py PROBE

PROBE holds interviews with every answer of every question, and with every pair of answers to neighbouring questions. The original's
questions are answered by what ours were, one by one; then its configuration is compared with what it loads of our file.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

try:
    from accelerate.commands.config import cluster, config, config_args, sagemaker
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FP8_NAMES = {"fp8_amax_history_length": "fp8_amax_history_len", "fp8_amax_compute_algorithm": "fp8_amax_compute_algo",
             "fp8_optimization_level": "fp8_opt_level"}
# Secrets, for which ours does not ask.
UNANSWERED = {"AWS Access Key ID: ": "id", "AWS Secret Access Key: ": "secret"}


class Replay:
    """Answers the original's questions by what was answered to ours."""

    def __init__(self, answers):
        self.answers, self.next = answers, 0
        self.is_neuron = any(one["answer"] == "multi-NEURON" for one in answers)

    def take(self, text, *kinds):
        assert self.next < len(self.answers), f"the original asks more: {text}"
        one = self.answers[self.next]
        assert one["kind"] in kinds, f"the original asks {text!r}, ours {one}"
        self.next += 1
        return one

    def options(self, text, options=(), convert_value=None, default=0):
        one = self.take(text, "menu", "text")
        place = one["place"] if one["kind"] == "menu" else int(one["answer"])  # A rank is typed here.
        assert place < len(options), (text, place)
        return convert_value(place) if convert_value else place

    def field(self, text, convert_value=None, default=None, error_message=None):
        if text in UNANSWERED:
            return UNANSWERED[text]
        if self.is_neuron and ("DeepSpeed?" in text or "FullyShardedDataParallel" in text):
            return False
        answer = self.take(text, "yes_no", "text")["answer"]
        if not answer and default is not None:
            return default
        return convert_value(answer) if convert_value else answer


def theirs(answers):
    replay = Replay(answers)
    for module in (cluster, config, sagemaker):
        module._ask_options, module._ask_field = replay.options, replay.field
    found = config.get_user_input().to_dict()
    assert replay.next == len(answers), f"the original asks less: {answers[replay.next]}"
    return found


def comparable(fields):
    """Without what we write otherwise on purpose."""
    fields = json.loads(json.dumps(fields))  # Tuples as lists.
    for key in ("tpu_vm", "tpu_env"):
        if fields.get(key) == [""]:  # The original's own for an empty answer.
            fields[key] = []
    for key in ("image_uri", "sagemaker_inputs_file", "sagemaker_metrics_file"):
        if fields.get(key):  # The original writes them in lower case.
            fields[key] = fields[key].lower()
    for section in ("fsdp_config", "deepspeed_config"):  # An empty answer: the original writes it, ours leaves the key out.
        if section in fields:
            fields[section] = {key: value for key, value in fields[section].items() if value != ""}
    if "tpu_use_sudo" in fields:  # A text in the original's, which any is true of.
        fields["tpu_use_sudo"] = fields["tpu_use_sudo"] in (True, "yes")
    if "fp8_config" in fields:  # By the names under which its launcher finds them.
        named = {("" if key.startswith("fp8_") else "fp8_") + key: value for key, value in fields["fp8_config"].items()}
        fields["fp8_config"] = {FP8_NAMES.get(key, key): value for key, value in named.items()}
    return fields


def asked_of_the_original(answers):
    """Its part of our answers; None where it has no such interview."""
    words = {one["answer"] for one in answers}
    if "torchxla_trace_once" in words:  # Misspelt in its menu, and refused by itself.
        return None
    if "multi-CPU" not in words:
        return answers
    sharded = [one for one in answers if one["question"].startswith("Use FSDP")]
    return None if sharded[0]["answer"] == "yes" else [one for one in answers if one not in sharded]


def loaded(text, folder):
    fields = yaml.load(text, yaml.SafeLoader)
    if fields["compute_environment"] == "AMAZON_SAGEMAKER" and fields["distributed_type"] == "NO":
        return fields  # The original adds a key to such a file, its own too, and then refuses it.
    path = pathlib.Path(folder) / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return config_args.load_config_from_file(str(path)).to_dict()


def main():
    for name in ("deepspeed", "fp8", "msamp", "torchao", "transformer_engine", "transformers"):
        setattr(cluster, f"is_{name}_available", lambda: True)
    sagemaker._create_iam_role_for_sagemaker = lambda name: None
    cluster.print = sagemaker.print = lambda *words: None
    yaml.SafeLoader = yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader
    interviews = json.loads(subprocess.run([sys.argv[1]], capture_output=True, text=True, check=True, timeout=120).stdout)
    failures, compared = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for one in interviews:
            try:
                ours = loaded(one["yaml"], folder)
                assert yaml.load(one["yaml"], yaml.SafeLoader) == json.loads(one["json"]), "YAML and JSON differ"
                answers = asked_of_the_original(one["answers"])
                if answers is None:
                    continue
                wanted, found = comparable(theirs(answers)), comparable(ours)
                compared += 1
                differing = sorted(key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key))
                assert not differing, [(key, wanted.get(key), found.get(key)) for key in differing]
            except Exception as error:  # noqa: BLE001: what the original throws is a finding too.
                failures.append((error, one["answers"]))
    for error, answers in failures[:5]:
        print(f"{type(error).__name__}: {error}\n  " + "\n  ".join(f"{a['question']} {a['answer']}" for a in answers))
    print(f"{len(interviews)} interviews, {compared} compared with the original's, {len(failures)} differ")
    assert compared > 300
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
