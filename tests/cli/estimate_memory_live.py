#!/usr/bin/env python3
"""`accelerate estimate-memory` beside the original's arithmetic: for random configurations of every model type, for a model of the hub by
its configuration and by its headers, and for an index whose weights would fill many disks.

usage: estimate_memory_live.py ACCELERATE [SEED]
"""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "reference"))

try:
    import torch
    import transformers
    from accelerate import init_empty_weights
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes, convert_bytes
    from architectures import KINDS, config_of
except ImportError as error:
    print(f"skipped: the originals are missing: {error}")
    sys.exit(77)

PROGRAM = os.path.abspath(sys.argv[1])
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(10**6)


def run(*words, code=0, **environment):
    ran = subprocess.run([PROGRAM, "estimate-memory", *map(str, words)], capture_output=True, text=True, check=False, timeout=120,
                         env=os.environ | environment)
    assert ran.returncode == code, (words, ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


def rows_of(text):
    """The cells of the table with dtypes."""
    lines = [re.split(r"\s*[│|]\s*", line.strip("│| \n")) for line in text.splitlines()]
    return {cells[0]: cells[1:] for cells in lines if cells[0] in ("float32", "float16", "int8", "int4")}


def theirs(config):
    with init_empty_weights():
        model = transformers.AutoModel.from_config(config, dtype=torch.float32)
    total, (largest, _) = calculate_maximum_sizes(model)
    # Without memory no weights are tied: the original counts the words of T5 and BART once for each name.
    whole = transformers.AutoModel.from_config(config, dtype=torch.float32)
    total -= sum(each.nbytes for each in model.parameters()) - sum(each.nbytes for each in whole.parameters())
    rows = {}
    for name, divisor in (("float32", 1), ("float16", 2), ("int8", 4), ("int4", 8)):
        usage = max(estimate_training_usage(total, name).values())
        rows[name] = [convert_bytes(largest / divisor), convert_bytes(total / divisor), convert_bytes(usage) if usage != -1 else "N/A"]
    return {name: [re.sub(r"^[0-9.]+", lambda number: f"{float(number[0]):.2f}", cell) .replace("bytes", "B") for cell in cells] for name, cells in rows.items()}


def check_configurations(folder):
    draw, compared = random.Random(SEED), 0
    for kind in KINDS:
        for _ in range(2):
            config = config_of(kind, draw)
            config.save_pretrained(folder / "config")
            ours, wanted = rows_of(run(folder / "config" / "config.json")), theirs(config)
            if kind == "electra":  # Transformers does not say what its layers are, so that its largest one is a matrix.
                ours, wanted = ({name: cells[1:] for name, cells in rows.items()} for rows in (ours, wanted))
            assert ours == wanted, (kind, SEED, ours, wanted)
            compared += 1
    return compared


def check_golden(folder):
    """bert-base-cased, whose answer the original's documentation prints."""
    transformers.BertConfig(vocab_size=28996).save_pretrained(folder / "bert")
    rows = rows_of(run(folder / "bert"))
    assert rows["float32"] == ["86.47 MB", "413.18 MB", "1.61 GB"], rows
    assert rows["float16"] == ["43.23 MB", "206.59 MB", "826.36 MB"], rows
    assert rows["int8"] == ["21.62 MB", "103.29 MB", "N/A"] and rows["int4"] == ["10.81 MB", "51.65 MB", "N/A"], rows


def write_header(path, tensors):
    """A file of safetensors whose weights are a hole."""
    header, end = {}, 0
    for name, shape in tensors.items():
        size = 2 * torch.Size(shape).numel()
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def llama(layers, width, inner, vocabulary):
    tensors = {"model.embed_tokens.weight": [vocabulary, width], "model.norm.weight": [width], "lm_head.weight": [vocabulary, width]}
    for i in range(layers):
        for name, shape in (("self_attn.q_proj", [width, width]), ("self_attn.k_proj", [width // 8, width]), ("self_attn.v_proj", [width // 8, width]),
                            ("self_attn.o_proj", [width, width]), ("mlp.gate_proj", [inner, width]), ("mlp.up_proj", [inner, width]),
                            ("mlp.down_proj", [width, inner]), ("input_layernorm", [width]), ("post_attention_layernorm", [width])):
            tensors[f"model.layers.{i}.{name}.weight"] = shape
    return tensors


def check_large_index(folder):
    """Llama 3 70B in 30 shards."""
    folder = folder / "70b"
    folder.mkdir()
    tensors = llama(80, 8192, 28672, 128256)
    names, index = list(tensors), {}
    for shard in range(30):
        file = f"model-{shard + 1:05}-of-00030.safetensors"
        part = {name: tensors[name] for name in names[shard::30]}
        write_header(folder / file, part)
        index |= {name: file for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    text = run(folder / "model.safetensors.index.json")
    assert "70553706496 parameters" in text and rows_of(text)["float16"][1] == "131.42 GB", text


def check_hub(folder):
    """By its configuration where the type is known, as the original; else by the headers alone."""
    seed = folder / "seed" / "models" / "acme"
    for name in ("known", "unknown"):
        (seed / name).mkdir(parents=True)
    config = config_of("bert", random.Random(SEED))
    config.save_pretrained(seed / "known")
    tensors = llama(3, 64, 128, 500)
    write_header(seed / "unknown" / "model.safetensors", tensors)
    (seed / "unknown" / "config.json").write_text('{"model_type": "never-heard-of"}')
    server = subprocess.Popen([sys.executable, TESTS / "transformers" / "hub" / "server" / "hub_server.py", "--until-eof", "--root", folder / "root",
                               "--seed", folder / "seed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    environment = {"HF_ENDPOINT": server.stdout.readline().strip(), "HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "", "no_proxy": "*"}
    try:
        assert rows_of(run("acme/known", **environment)) == theirs(config)
        count = sum(torch.Size(shape).numel() for shape in tensors.values())
        assert f"{count} parameters" in run("acme/unknown", **environment)
        assert not list((folder / "home").rglob("model.safetensors")), "weights were fetched"
        assert "acme/nothing" in run("acme/nothing", code=1, **environment)
        assert rows_of(run("acme/known", **environment | {"HF_HUB_OFFLINE": "1"})) == theirs(config)
    finally:
        server.stdin.close()
        server.wait(10)
        server.stdout.close()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compared = check_configurations(folder)
        check_golden(folder)
        check_large_index(folder)
        check_hub(folder)
    print(f"{compared} configurations, seed {SEED}: equal")


if __name__ == "__main__":
    main()
