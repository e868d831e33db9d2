#!/usr/bin/env python3
"""Writes bert_tiny.pt, the tiny BERT of examples/fsdp as TorchScript, and bert_tiny.json: what its training there takes
in one process of PyTorch. `fp32`: losses of the 20 steps; `trained`: that of all sentences after them. `bf16`: the same with fp32 master weights, over which forward
and backward run in bf16 as FSDP's mixed precision has them: parameters and gradients in bf16, autocast, and for each of
`ranks` the gradient of its part of a batch, summed in fp32.

  python tests/reference/bert_tiny.py [folder]
  python tests/reference/bert_tiny.py --score FOLDER   the loss of all sentences by the weights in FOLDER, as Transformers
                                                       reads them: every name, and no other
"""
import json
import logging
import pathlib
import sys

import torch
from transformers import BertForSequenceClassification

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent.parent.parent / "examples" / "fsdp"))
logging.disable(logging.WARNING)
from export_bert import LENGTH, export, tiny_bert  # noqa: E402

SENTENCES, BATCH, EPOCHS = 32, 8, 5
RANKS = (1, 2, 4)


def sentences():
    """tokens: int64 {32, 16}, 0 where a sentence has ended; labels: int64 {32}. As in examples/fsdp/sentences.h."""
    row = torch.arange(SENTENCES).unsqueeze(1)
    column = torch.arange(LENGTH).unsqueeze(0)
    tokens = (row * 17 + column * (row % 7 + 3) + 5) % 61 + 3
    tokens[column.expand_as(tokens) >= LENGTH - row % 6] = 0
    return tokens, tokens[:, 0] % 2


def batches():
    tokens, labels = sentences()
    for _ in range(EPOCHS):
        yield from zip(tokens.split(BATCH), labels.split(BATCH))


def loss_of(model, tokens, labels):
    scores = model(tokens, tokens.ne(0).to(torch.int64))[0]
    return torch.nn.functional.cross_entropy(scores.float(), labels)


def optimizer_of(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def loss_of_all(model):
    with torch.no_grad():
        return loss_of(model, *sentences()).item()


def score(folder):
    model, report = BertForSequenceClassification.from_pretrained(folder, config=tiny_bert().config,
                                                                  output_loading_info=True)
    faults = {key: value for key, value in report.items() if value}
    if faults:
        sys.exit(f"{folder}: {faults}")
    model.config.return_dict = False
    return loss_of_all(model.train())


def train_fp32(path):
    model = torch.jit.load(str(path))
    optimizer = optimizer_of(model.parameters())
    losses = []
    for tokens, labels in batches():
        optimizer.zero_grad()
        loss = loss_of(model, tokens, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, loss_of_all(model)


def step_bf16(models, tokens, labels):
    """The mean loss, and the mean gradient of each parameter, fp32."""
    total, gradients, ranks = 0.0, None, len(models)
    for model, part, truths in zip(models, tokens.chunk(ranks), labels.chunk(ranks)):
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, part, truths)
        own = [g.float() for g in torch.autograd.grad(loss, list(model.parameters()))]
        gradients = own if gradients is None else [a + b for a, b in zip(gradients, own)]
        total += loss.item()
    return total / ranks, [g / ranks for g in gradients]


def train_bf16(path, ranks):
    # One for each rank, as TorchScript optimises a module by the runs that it has seen.
    models = [torch.jit.load(str(path)) for _ in range(ranks)]
    masters = [p.detach().clone().requires_grad_() for p in models[0].parameters()]
    optimizer = optimizer_of(masters)
    for model in models:
        model.to(torch.bfloat16)
    losses = []
    for tokens, labels in batches():
        loss, gradients = step_bf16(models, tokens, labels)
        for master, gradient in zip(masters, gradients):
            master.grad = gradient
        optimizer.step()
        with torch.no_grad():
            for model in models:
                for parameter, master in zip(model.parameters(), masters):
                    parameter.copy_(master)
        losses.append(loss)
    return losses


def drop_debug_info(path):
    """The archive without the lines of source that each operator came from, which differ from machine to machine."""
    reader = torch._C.PyTorchFileReader(str(path))
    own = ("version", "byteorder", ".data/serialization_id")  # the writer's to write
    records = {name: reader.get_record(name) for name in reader.get_all_records()
               if name not in own and not name.endswith(".debug_pkl")}
    del reader
    writer = torch._C.PyTorchFileWriter(str(path))
    for name, data in records.items():
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()


def main():
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["--score"]:
        print(f"{score(sys.argv[2]):.9f}")
        return
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent
    path = folder / "bert_tiny.pt"
    export(tiny_bert(), path)
    drop_debug_info(path)
    fp32, trained = train_fp32(path)
    golden = {"fp32": fp32, "trained": trained, "bf16": {str(ranks): train_bf16(path, ranks) for ranks in RANKS}}
    (folder / "bert_tiny.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{path.stat().st_size} bytes, losses {golden['fp32'][0]:.6f} to {golden['fp32'][-1]:.6f}, "
          f"in bf16 to {golden['bf16']['2'][-1]:.6f}")


if __name__ == "__main__":
    main()
