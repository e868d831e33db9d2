"""Fine-tunes a model of Hugging Face on a GPU as programs/gpu_models.cpp does, and reports how long steps take.

usage: gpu_models.py FOLDER WARM_UP_STEPS BLOCKS STEPS_PER_BLOCK
       gpu_models.py --make FOLDER TOKENIZER    writes models with random weights into FOLDER/bert, FOLDER/gpt2 and
                                                FOLDER/minilm, the last with the tokenizer of the folder TOKENIZER
"""
import pathlib
import shutil
import sys

import torch
import transformers
from accelerate import Accelerator
from accelerate.utils import set_seed

import measure

MINILM = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)


def make(folder, tokenizer):
    torch.manual_seed(7)
    folder = pathlib.Path(folder)
    transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder / "gpt2")
    for name, sizes in (("bert", {}), ("minilm", MINILM)):
        transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=8, **sizes)).save_pretrained(folder / name)
    for file in pathlib.Path(tokenizer).glob("*token*.json"):
        shutil.copy(file, folder / "minilm")


def sentences(vocabulary):
    places, rows = torch.arange(128), torch.arange(32).unsqueeze(1)
    mask = places < rows * 37 % 113 + 16
    return dict(input_ids=((rows * 131 + places * 17) % vocabulary) * mask, attention_mask=mask.long(), labels=torch.arange(32) % 8)


def long_texts(vocabulary):
    ids = (torch.arange(8).unsqueeze(1) * 131 + torch.arange(1024) * 17) % (vocabulary - 1)
    return dict(input_ids=ids, labels=ids)


def train(folder, *blocks):
    if not torch.cuda.is_available():
        sys.exit("gpu_models.py: no GPU that this torch can use")
    accelerator = Accelerator(mixed_precision="bf16")
    set_seed(42)
    config = transformers.AutoConfig.from_pretrained(folder)
    is_encoder = config.model_type == "bert"
    auto = transformers.AutoModelForSequenceClassification if is_encoder else transformers.AutoModelForCausalLM
    net = auto.from_pretrained(folder, dtype=torch.float32).to(accelerator.device)
    model, optimizer = accelerator.prepare(net, torch.optim.AdamW(net.parameters(), lr=5e-5, fused=True))
    batch = (sentences if is_encoder else long_texts)(config.vocab_size)
    batch = {name: tensor.to(accelerator.device) for name, tensor in batch.items()}
    with torch.no_grad():
        net.eval()
        first_loss = model(**batch).loss.item()
        net.train()

    def loop(steps):
        for _ in range(steps):
            accelerator.backward(model(**batch).loss)
            accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.synchronize()

    block_seconds = measure.block_seconds(loop, *blocks)
    measure.report(block_seconds=block_seconds, first_loss=first_loss, device_peak_mib=torch.cuda.max_memory_allocated() / 2**20)


transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
if sys.argv[1] == "--make":
    make(*sys.argv[2:])
else:
    train(sys.argv[1], *map(int, sys.argv[2:]))
