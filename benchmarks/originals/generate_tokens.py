"""Opens a decoder and continues a text by the likeliest tokens, one row, as programs/generate_tokens.cpp.

usage: generate_tokens.py FOLDER NEW_TOKENS
"""
import sys
import time

import torch
import transformers

import measure


def main(folder, new_tokens):
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    start = time.perf_counter()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    opening = time.perf_counter() - start
    prompt = (torch.arange(16) * 37 + 1000).unsqueeze(0)

    def generate(count):
        start = time.perf_counter()
        ids = model.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count, min_new_tokens=count, do_sample=False)
        return time.perf_counter() - start, ids

    first, _ = generate(1)
    warm, _ = generate(1)
    seconds, ids = generate(int(new_tokens))
    measure.report(open_seconds=opening, first_seconds=first, token_seconds=(seconds - warm) / (int(new_tokens) - 1), checksum=ids.sum().item())


main(*sys.argv[1:])
