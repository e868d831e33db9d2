"""Small models that Transformers makes, their tokenizer and sayings of eight topics: what tests of the examples train on."""
TOPICS = ["art", "computers", "food", "law", "men-women", "politics", "science", "songs-poems"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{i}" for i in range(60))]


def tokenizer():
    """Words as they are."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
                                               model_input_names=["input_ids", "attention_mask"])


def make(folder):
    """Folders below `folder`: a BERT without a head, a Llama, and a file of sayings for each topic."""
    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(1)
    sizes = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "pad_token_id": 0}
    bert, llama, data = folder / "bert", folder / "llama", folder / "data"
    transformers.BertModel(transformers.BertConfig(**sizes)).save_pretrained(bert)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).save_pretrained(llama)
    for model in (bert, llama):
        tokenizer().save_pretrained(model)
    data.mkdir()
    draw = torch.Generator().manual_seed(2)
    for topic, name in enumerate(TOPICS):  # Each topic has words of its own.
        numbers = torch.randint(0, 6, (30, 8), generator=draw) + 6 * topic
        texts = [" ".join(f"w{i}" for i in row.tolist()) for row in numbers]
        (data / name).write_text("\n%\n".join(texts) + "\n%\n")
    return bert, llama, data
