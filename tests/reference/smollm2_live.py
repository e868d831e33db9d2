#!/usr/bin/env python3
"""Compares SmolLM2-135M, trained weights, with Transformers: logits on real lines, the ids of its tokenizer, and texts that
it goes on with.

usage: smollm2_live.py PROBE TOKENIZER_PROBE FOLDER

FOLDER: what tools/fetch_models.py makes, smollm2 in it. 100 sayings: logits within 1e-3, through both attention back ends, padded and
not. Greedy texts of 200 tokens are equal, or up to a place where Transformers' best two tokens lie within 1e-3; drawn texts and beam
searches of 40 tokens are equal.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from models_live import Probe, safetensors, torch, transformers

FORTUNES = pathlib.Path("/usr/share/games/fortunes")
LINES, BATCH, ALLOWED, TOKENS = 100, 5, 1e-3, 200
PROMPTS = ["Gravity is", "The capital of France is", "def fibonacci(n):\n", "Once upon a time", "<|im_start|>user\nWhat is a bird?<|im_end|>\n<|im_start|>assistant\n"]


def lines():
    if not FORTUNES.is_dir():
        print("skipped: there are no fortunes; apt-get install fortunes")
        sys.exit(77)
    texts = [text.strip() for topic in ("art", "science", "law") for text in (FORTUNES / topic).read_text(encoding="utf-8").split("\n%\n")]
    return [text for text in texts if 20 < len(text) < 300][:LINES]


class Comparison:
    def __init__(self, path, folder, scratch):
        self.probe, self.folder, self.scratch, self.faults = Probe(path), folder, scratch, []
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        self.words = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")

    def ask(self, **question):
        said = self.probe.ask(**question)
        if "error" in said:
            raise SystemExit(f"{question}: {said}")
        return said

    def write(self, tensors):
        (self.scratch / "in").mkdir(exist_ok=True)
        safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, self.scratch / "in" / "model.safetensors")
        return self.scratch / "in"

    def read(self):
        return safetensors.torch.load_file(self.scratch / "out" / "model.safetensors")

    def logits(self):
        texts, worst, compared = lines(), 0.0, 0
        for attention in ("sdpa", "eager"):
            self.model.set_attn_implementation(attention)
            for drops in (True, False):
                self.ask(open=self.folder, task="causal_lm", attention=attention, drops_padding=drops)
                for side in ("left", "right"):
                    for i in range(0, LINES, BATCH * 4):
                        inputs = dict(self.words(texts[i:i + BATCH], padding=True, padding_side=side, return_tensors="pt"))
                        with torch.no_grad():
                            want = self.model(**inputs).logits
                        self.ask(call=self.write(inputs), to=self.scratch / "out")
                        mask = inputs["attention_mask"].bool()
                        worst = max(worst, (want[mask] - self.read()["logits"][mask]).abs().max().item())
                        compared += mask.sum().item()
        self.model.set_attn_implementation("sdpa")
        print(f"logits of {compared} tokens: at most {worst:.1e} off, allowed {ALLOWED:.0e}")
        if worst > ALLOWED or compared < 3000:
            self.faults.append("logits")

    def generate(self, inputs, **said):
        torch.manual_seed(3)
        want = self.model.generate(**inputs, **said)
        self.ask(generate=self.write(inputs), to=self.scratch / "out", config=said, seed=3)
        return want, self.read()["ids"]

    def texts(self):
        self.ask(open=self.folder, task="causal_lm")
        equal = 0
        for prompt in PROMPTS:
            inputs = dict(self.words(prompt, return_tensors="pt"))
            want, got = self.generate(inputs, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False)
            differing = (want != got).flatten().nonzero().flatten()
            if len(differing) == 0:
                equal += 1
                continue
            with torch.no_grad():
                best = self.model(want[:, :differing[0]]).logits[0, -1].topk(2).values
            print(f"{prompt!r}: equal for {differing[0] - inputs['input_ids'].shape[1]} tokens; there the best two lie {best[0] - best[1]:.1e} apart")
            if best[0] - best[1] > ALLOWED:
                self.faults.append(f"greedy {prompt!r}")
        print(f"{equal} of {len(PROMPTS)} greedy texts of {TOKENS} tokens are equal")
        batch = dict(self.words(PROMPTS, padding=True, return_tensors="pt"))
        for said in ({"do_sample": True, "temperature": 0.8, "top_p": 0.9}, {"num_beams": 3, "do_sample": False}, {"do_sample": False, "repetition_penalty": 1.2}):
            want, got = self.generate(batch, max_new_tokens=40, **said)
            print(f"{said}: {'equal' if torch.equal(want, got) else 'DIFFERENT'}")
            if not torch.equal(want, got):
                self.faults.append(str(said))

    def ids(self, tokenizer_probe):
        texts = lines() + PROMPTS
        questions = "".join(json.dumps({"text": text.encode().hex()}) + "\n" for text in texts)
        asked = subprocess.run([tokenizer_probe, self.folder / "tokenizer.json"], input=questions, capture_output=True, text=True, check=False)
        got = [json.loads(line)["ids"] for line in asked.stdout.splitlines()]
        want = self.words(texts).input_ids
        print(f"ids of {len(want)} texts: {'equal' if got == want else 'DIFFERENT ' + asked.stderr[-300:]}")
        if got != want:
            self.faults.append("ids")


def main(path, tokenizer_probe, folder):
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        comparison = Comparison(path, pathlib.Path(folder) / "smollm2", pathlib.Path(scratch))
        comparison.ids(tokenizer_probe)
        comparison.logits()
        comparison.texts()
    print(f"{len(comparison.faults)} faults {comparison.faults or ''}")
    return bool(comparison.faults)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
