"""How long somebody waits at the command line.

- **accelerate env**: from start to end, without and with LibTorch, which it loads in another process.
- **A question**: `accelerate config` on a pseudo-terminal, answered by Enter: the longest wait of a run, from the start to the first
  question and from each Enter to the next page. There is no original beside it: it takes its seconds at the start (`accelerate env`).
- **estimate-memory of 70 billion parameters**: by the index and the headers of 30 shards of Llama 3 70B, whose weights are holes. Theirs
  makes the model without memory from its configuration, as its command does once it has asked the hub, and sums up its modules.
- **accelerate test**: two launches of one process, and all checks. Theirs has no counterpart: its `test` launches another script.
"""
import json
import os
import pty
import select
import subprocess
import tempfile
import time

from harness import BenchmarkError, Contender, Summary, alternate, run
from report import AtMost, Row

TITLE = "The command line: ours and the Python originals"
PROGRAMS = ()
ROUNDS = 5
PER_TURN = 10
SHARDS = 30
MOST_QUESTIONS = 30
END_OF_INPUT = b"\x04"
LLAMA_70B = {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
             "vocab_size": 128256, "max_position_embeddings": 8192, "model_type": "llama", "tie_word_embeddings": False}
THEIRS = """
import sys, torch
from transformers import AutoConfig, AutoModel
from accelerate import init_empty_weights
from accelerate.utils import calculate_maximum_sizes
with init_empty_weights():
    model = AutoModel.from_config(AutoConfig.from_pretrained(sys.argv[1]), dtype=torch.float32)
print(calculate_maximum_sizes(model)[0])
"""


def timed(setting, *command):
    return lambda: run(setting, command).seconds * 1e3


def summary(samples, name):
    return Summary.of(samples[name])


def env_rows(setting, say):
    theirs = setting.venv / "bin" / "accelerate"
    samples = alternate([Contender("without", timed(setting, setting.accelerate, "env", "--without_libtorch"), PER_TURN),
                         Contender("with", timed(setting, setting.accelerate, "env"), PER_TURN),
                         Contender("theirs", timed(setting, theirs, "env"))], setting.rounds, say)
    return [Row("accelerate env --without_libtorch", "ms", summary(samples, "without"), summary(samples, "theirs"), AtMost(50)),
            Row("accelerate env", "ms", summary(samples, "with"), summary(samples, "theirs"), AtMost(400))]


def page_after(master, start, limit=10):
    """Seconds from `start` to the first bytes, which are then read until none come."""
    if not select.select([master], [], [], limit)[0]:
        raise BenchmarkError("no page came")
    first = time.perf_counter() - start
    drain(master, 0.02)
    return first


def drain(master, silence):
    """Reads until nothing comes for so many seconds, or the program has left."""
    while select.select([master], [], [], silence)[0]:
        try:
            if not os.read(master, 65536):
                break
        except OSError:  # The program has left.
            break


def longest_wait(setting):
    """Milliseconds of the slowest question of an interview."""
    with tempfile.TemporaryDirectory() as home:
        master, worker = pty.openpty()
        start = time.perf_counter()
        process = subprocess.Popen([setting.accelerate, "config"], stdin=worker, stdout=worker, stderr=worker, start_new_session=True,
                                   env=setting.environment() | {"HF_HOME": home, "TERM": "xterm"})
        os.close(worker)
        waits = [page_after(master, start)]
        for _ in range(MOST_QUESTIONS):
            if process.poll() is not None:
                break
            start = time.perf_counter()
            os.write(master, b"\r")
            waits.append(page_after(master, start))
        os.write(master, END_OF_INPUT)
        drain(master, 10)  # A program whose output nobody reads does not end.
        process.wait(10)
        os.close(master)
        if process.returncode != 0:
            raise BenchmarkError(f"accelerate config ended with {process.returncode}")
        return max(waits) * 1e3


def tensors():
    width, inner, vocabulary = (LLAMA_70B[key] for key in ("hidden_size", "intermediate_size", "vocab_size"))
    yield "model.embed_tokens.weight", [vocabulary, width]
    yield "lm_head.weight", [vocabulary, width]
    yield "model.norm.weight", [width]
    for layer in range(LLAMA_70B["num_hidden_layers"]):
        for name, shape in (("self_attn.q_proj", [width, width]), ("self_attn.k_proj", [width // 8, width]),
                            ("self_attn.v_proj", [width // 8, width]), ("self_attn.o_proj", [width, width]),
                            ("mlp.gate_proj", [inner, width]), ("mlp.up_proj", [inner, width]), ("mlp.down_proj", [width, inner]),
                            ("input_layernorm", [width]), ("post_attention_layernorm", [width])):
            yield f"model.layers.{layer}.{name}.weight", shape


def write_70b(folder):
    """An index, and shards of which the headers alone take room."""
    whole, index = list(tensors()), {}
    for shard in range(SHARDS):
        header, end, file = {}, 0, f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors"
        for name, shape in whole[shard::SHARDS]:
            size = 2 * (shape[0] * (shape[1] if len(shape) > 1 else 1))
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
            end, index[name] = end + size, file
        text = json.dumps(header).encode()
        with (folder / file).open("wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            out.truncate(8 + len(text) + end)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config").mkdir()
    (folder / "config" / "config.json").write_text(json.dumps(LLAMA_70B))
    return path


def estimate_row(setting, say):
    folder = setting.home / "llama70b"
    folder.mkdir()
    index = write_70b(folder)
    samples = alternate([Contender("ours", timed(setting, setting.accelerate, "estimate-memory", index), PER_TURN),
                         Contender("theirs", timed(setting, setting.venv / "bin" / "python", "-W", "ignore", "-c", THEIRS, folder / "config"))],
                        setting.rounds, say)
    return Row("estimate-memory of 70 billion parameters", "ms", summary(samples, "ours"), summary(samples, "theirs"), AtMost(100))


def measure(setting, say):
    questions = alternate([Contender("questions", lambda: longest_wait(setting), 3)], setting.rounds, say)
    test = alternate([Contender("test", timed(setting, setting.accelerate, "test"))], setting.rounds, say)
    return [*env_rows(setting, say), Row("the slowest question of accelerate config", "ms", summary(questions, "questions"), None, AtMost(50)),
            estimate_row(setting, say), Row("accelerate test, one process", "ms", summary(test, "test"))]
