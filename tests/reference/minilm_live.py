#!/usr/bin/env python3
"""Compares MiniLM, trained weights, with Transformers on real lines: hidden states, logits, and the losses of training.

usage: minilm_live.py PROBE FOLDER

FOLDER: what tools/fetch_models.py makes. 100 sayings, padded to the longest of each 10: values within 1e-4, with padding dropped and
computed, through both attention back ends. Then 50 steps of AdamW with a new head, without dropout: losses within 1e-3.
"""
import pathlib
import sys
import tempfile

from models_live import Probe, safetensors, torch, transformers

FORTUNES = pathlib.Path("/usr/share/games/fortunes")
TOPICS = ["art", "food", "law", "science"]
BATCH, LINES, STEPS = 10, 100, 50


def batches_of(tokenizer):
    """STEPS batches of BATCH sayings with their topics as labels; the first LINES / BATCH are those whose logits are compared."""
    if not FORTUNES.is_dir():
        print("skipped: there are no fortunes; apt-get install fortunes")
        sys.exit(77)
    rows = []
    for label, topic in enumerate(TOPICS):
        texts = (FORTUNES / topic).read_text(encoding="utf-8").split("\n%\n")
        rows += [(text.strip(), label) for text in texts if text.strip()]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(4)).tolist()
    for i in range(STEPS):
        texts, labels = zip(*(rows[order[(i * BATCH + j) % len(rows)]] for j in range(BATCH)))
        yield dict(tokenizer(list(texts), padding=True, truncation=True, max_length=128, return_tensors="pt"), labels=torch.tensor(labels))


def main(path, folder):
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    model_folder, probe, worst, compared = pathlib.Path(folder) / "minilm", Probe(path), {}, 0
    batches = list(batches_of(transformers.AutoTokenizer.from_pretrained(model_folder)))
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)

        def ask(**question):
            said = probe.ask(**question)
            assert not said, said

        def write(batch, name):
            safetensors.torch.save_file({key: tensor.contiguous() for key, tensor in batch.items()}, scratch / name)
            return scratch / name

        for task, auto, want_names in (("base", transformers.AutoModel, ("last_hidden_state", "pooler_output")),
                                       ("sequence_classification", transformers.AutoModelForSequenceClassification, ("logits",))):
            for attention in ("sdpa", "eager"):
                torch.manual_seed(7)
                labels = {"num_labels": len(TOPICS)} if task != "base" else {}
                model = auto.from_pretrained(model_folder, attn_implementation=attention, **labels).eval()
                given = [{name: tensor for name, tensor in batch.items() if name != "labels"} for batch in batches[:LINES // BATCH]]
                with torch.no_grad():
                    wanted = [model(**inputs) for inputs in given]
                for drops in (True, False):
                    ask(open=model_folder, task=task, attention=attention, drops_padding=drops, seed=7, **labels)
                    for batch, inputs, want in zip(batches, given, wanted):
                        ask(call=write(inputs, "in.safetensors"), to=scratch / "out")
                        got = safetensors.torch.load_file(scratch / "out" / "model.safetensors")
                        for name in want_names:
                            a, b = want[name], got[name]
                            if name == "last_hidden_state":
                                a, b = a[batch["attention_mask"].bool()], b[batch["attention_mask"].bool()]
                            worst[name] = max(worst.get(name, 0), (a - b).abs().max().item())
                            compared += a.numel()
        losses, model = [], transformers.AutoModelForSequenceClassification
        torch.manual_seed(7)
        config = transformers.AutoConfig.from_pretrained(model_folder, num_labels=len(TOPICS), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        model = model.from_pretrained(model_folder, config=config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
        for batch in batches:
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        named = {f"{i}.{name}": tensor for i, batch in enumerate(batches) for name, tensor in batch.items()}
        ask(open=model_folder, task="sequence_classification", seed=7, num_labels=len(TOPICS), dropout=0.0)
        ask(train=write(named, "batches.safetensors"), lr=5e-5, to=scratch / "out")
        got = safetensors.torch.load_file(scratch / "out" / "model.safetensors")["losses"]
    assert len(got) == STEPS and losses[-1] < losses[0] * 0.8, (losses[0], losses[-1])
    worst["losses of training"] = (torch.tensor(losses) - got).abs().max().item()
    allowed = {name: 1e-3 if name == "losses of training" else 1e-4 for name in worst}
    for name, off in worst.items():
        print(f"{name}: at most {off:.1e} off, allowed {allowed[name]:.0e}")
    print(f"{compared} values and {STEPS} losses compared")
    assert compared > 4 * 1000 * 384
    return any(off > allowed[name] for name, off in worst.items())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
