"""The architectures that the comparisons with Transformers go through: a row each. A new architecture gets a row."""
import dataclasses
import random
import sys
import typing

try:
    import transformers
except ImportError as error:
    print(f"skipped: the originals are missing: {error}")
    sys.exit(77)

HEADS = {"base": "AutoModel", "sequence_classification": "AutoModelForSequenceClassification",
         "token_classification": "AutoModelForTokenClassification", "question_answering": "AutoModelForQuestionAnswering"}
ENCODER_HEADS = HEADS | {"masked_lm": "AutoModelForMaskedLM", "multiple_choice": "AutoModelForMultipleChoice"}
SEQ2SEQ_HEADS = {"base": "AutoModel", "seq2seq_lm": "AutoModelForSeq2SeqLM"}
DECODER_HEADS = HEADS | {"causal_lm": "AutoModelForCausalLM"}
VOCABULARY, POSITIONS = 97, 40
ROPES = [None, {"rope_type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 3.0},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 10},
         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}]


@dataclasses.dataclass(frozen=True)
class Shape:
    """What is drawn for every architecture."""
    heads: int
    size: int
    layers: int
    act: str
    ids: dict  # So that padding is found and positions fit.


@dataclasses.dataclass(frozen=True)
class Architecture:
    """`config`: makes a random small configuration without dropout."""
    config: typing.Callable[[random.Random, Shape], transformers.PretrainedConfig]
    is_encoder: bool = False
    is_seq2seq: bool = False
    has_token_types: bool = False
    has_windows: bool = False  # Where a mask that tells sequences apart cannot say so.
    attentions: tuple = ("sdpa", "eager")  # Those that Transformers has and that compute the same: its sdpa does not cap scores.
    tells_sequences: bool = True  # Whether a mask can tell Transformers which tokens of a row see each other.
    first_position: int = 0
    takes_positions_of_choices: bool = True
    with_heads: dict = dataclasses.field(default_factory=dict)  # Besides those of its kind.
    without: tuple = ()  # Heads that Transformers lacks.
    makes_head_first: bool = False  # A new head, and what is below it, then has other random numbers than ours.
    unread: tuple = ()  # Parameters that nothing reads without tied embeddings.
    # Makes a configuration of sizes that a GGUF file can hold, of these keys; None: no GGUF file is read.
    gguf: typing.Callable[[random.Random, dict], transformers.PretrainedConfig] | None = None
    not_found_in_gguf: tuple = ()  # Weights of a bare model for which Transformers looks under another name.

    @property
    def heads(self):
        all_heads = SEQ2SEQ_HEADS if self.is_seq2seq else ENCODER_HEADS if self.is_encoder else DECODER_HEADS
        return {head: auto for head, auto in (all_heads | self.with_heads).items() if head not in self.without}


def bert_like(make):
    return lambda draw, shape: make(
        **shape.ids, hidden_size=shape.size, num_hidden_layers=shape.layers, num_attention_heads=shape.heads, intermediate_size=draw.choice([24, 50]),
        hidden_act=shape.act, max_position_embeddings=POSITIONS, type_vocab_size=draw.choice([2, 3]), hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, layer_norm_eps=draw.choice([1e-12, 1e-5]), initializer_range=0.3)


def electra(draw, shape):
    config = bert_like(transformers.ElectraConfig)(draw, shape)
    config.embedding_size, config.summary_last_dropout = draw.choice([12, shape.size]), 0.0
    return config


def distilbert(draw, shape):
    return transformers.DistilBertConfig(
        **shape.ids, dim=shape.size, n_layers=shape.layers, n_heads=shape.heads, hidden_dim=draw.choice([24, 50]), activation=shape.act,
        max_position_embeddings=POSITIONS, dropout=0.0, attention_dropout=0.0, qa_dropout=0.0, seq_classif_dropout=0.0,
        sinusoidal_pos_embds=draw.random() < 0.5, initializer_range=0.3)


def deberta_v2(draw, shape):
    config = bert_like(transformers.DebertaV2Config)(draw, shape)
    config.type_vocab_size, config.position_biased_input, config.cls_dropout = draw.choice([0, 2]), draw.random() < 0.3, 0.0
    config.relative_attention, config.pos_att_type = draw.random() < 0.9, draw.choice([["p2c", "c2p"], ["c2p"], ["p2c"], []])
    config.share_att_key, config.norm_rel_ebd = draw.random() < 0.5 or not config.pos_att_type, draw.choice(["none", "layer_norm"])
    config.position_buckets, config.max_relative_positions = draw.choice([-1, 4, 16]), draw.choice([-1, 30])
    config.pooler_hidden_act, config.embedding_size = draw.choice(["gelu", "tanh"]), draw.choice([12, shape.size])
    return config


def albert(draw, shape):
    config = bert_like(transformers.AlbertConfig)(draw, shape)
    config.embedding_size, config.num_hidden_groups, config.inner_group_num = draw.choice([12, shape.size]), draw.choice([1, 2, shape.layers]), draw.choice([1, 2])
    config.classifier_dropout_prob = 0.0
    return config


def modernbert(draw, shape):
    keys = {"layer_types": [draw.choice(["full_attention", "sliding_attention"]) for _ in range(shape.layers)]} if draw.random() < 0.5 else {}
    rope = draw.choice(ROPES)
    if rope:
        keys["rope_parameters"] = {name: dict(draw.choice([rope, {"rope_type": "default"}]), rope_theta=draw.choice([10000.0, 160000.0]))
                                   for name in ("full_attention", "sliding_attention")}
    ignored = draw.choice([-100, 5])
    return transformers.ModernBertConfig(
        **shape.ids, **keys, hidden_size=shape.size, num_hidden_layers=shape.layers, num_attention_heads=shape.heads, intermediate_size=draw.choice([24, 50]),
        hidden_activation=shape.act, classifier_activation=draw.choice(["gelu", "relu"]), max_position_embeddings=POSITIONS,
        local_attention=draw.choice([0, 3, 8, 128]), norm_eps=draw.choice([1e-12, 1e-5]), norm_bias=draw.random() < 0.5, attention_bias=draw.random() < 0.5,
        mlp_bias=draw.random() < 0.5, decoder_bias=draw.random() < 0.7, classifier_bias=draw.random() < 0.5,
        classifier_pooling=draw.choice(["cls", "mean"]), sparse_prediction=draw.random() < 0.3, sparse_pred_ignore_index=ignored,
        initializer_range=0.3, initializer_cutoff_factor=draw.choice([2.0, 0.3]), bos_token_id=0, eos_token_id=0, cls_token_id=0, sep_token_id=0)


def gpt2(draw, shape):
    return transformers.GPT2Config(
        **shape.ids, n_embd=shape.size, n_layer=shape.layers, n_head=shape.heads, n_inner=draw.choice([None, 30]), activation_function=shape.act,
        n_positions=POSITIONS, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.3, scale_attn_weights=draw.random() < 0.7,
        scale_attn_by_inverse_layer_idx=draw.random() < 0.3, bos_token_id=0, eos_token_id=0, classifier_dropout=0.0)


def t5(draw, shape):
    return transformers.T5Config(
        **shape.ids, d_model=shape.size, d_kv=draw.choice([4, 8]), num_layers=shape.layers, num_decoder_layers=draw.choice([None, 1]),  # Not more than num_layers, which Python's cache is made for.
        num_heads=shape.heads, d_ff=draw.choice([24, 50]), relative_attention_num_buckets=draw.choice([7, 8, 32]),
        relative_attention_max_distance=draw.choice([17, 20, 128]), dropout_rate=0.0, classifier_dropout=0.0, initializer_factor=draw.choice([0.3, 1.0]),
        feed_forward_proj=draw.choice(["relu", "gated-gelu", "gated-silu", shape.act]), decoder_start_token_id=draw.choice([0, 1]), eos_token_id=2)


def bart(draw, shape):
    return transformers.BartConfig(
        **shape.ids, d_model=shape.size, encoder_layers=shape.layers, decoder_layers=min(shape.layers, draw.choice([1, 2])), encoder_attention_heads=shape.heads,
        decoder_attention_heads=draw.choice([1, 2]), encoder_ffn_dim=draw.choice([24, 50]), decoder_ffn_dim=draw.choice([24, 50]),
        max_position_embeddings=POSITIONS, activation_function=shape.act, dropout=0.0, init_std=draw.choice([0.1, 0.3]),
        scale_embedding=draw.random() < 0.5, decoder_start_token_id=draw.choice([0, 2]), forced_eos_token_id=draw.choice([None, 2]))


def longrope(draw, pairs):
    return {"rope_type": "longrope", "short_factor": [round(draw.uniform(1, 2), 3) for _ in range(pairs)],
            "long_factor": [round(draw.uniform(1, 6), 3) for _ in range(pairs)]} | draw.choice([{}, {"factor": 4.0}, {"attention_factor": 1.3}])


def llama_like(make, more):
    def config(draw, shape):
        common = dict(shape.ids, hidden_size=shape.size, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
                      num_key_value_heads=draw.choice([1, 2, shape.heads]), intermediate_size=draw.choice([24, 50]),
                      hidden_act=draw.choice(["silu", "gelu"]), max_position_embeddings=POSITIONS, initializer_range=0.3, classifier_dropout=0.0)
        own = more(draw)
        rope = draw.choice(ROPES)
        if draw.random() < 0.15:
            rope = longrope(draw, (own.get("head_dim") or shape.size // shape.heads) // 2) | {"original_max_position_embeddings": draw.choice([8, 16])}
        if rope:
            common["rope_parameters"] = dict(rope, rope_theta=draw.choice([10000.0, 500000.0]))
        return make(**(common | own))
    return config


def of_biases(draw):
    return {"attention_bias": draw.random() < 0.5, "mlp_bias": draw.random() < 0.5}


def of_llama(draw):
    return of_biases(draw) | {"head_dim": draw.choice([None, 6])}


def of_mistral(draw):
    return {"sliding_window": draw.choice([None, 4, 30])}


def of_qwen2(draw):
    return {"use_sliding_window": draw.random() < 0.5, "sliding_window": draw.choice([3, 30]), "max_window_layers": 1}


def of_qwen3(draw):
    return of_qwen2(draw) | {"head_dim": draw.choice([6, 8]), "attention_bias": draw.random() < 0.5}


def of_smollm3(draw):
    return of_biases(draw) | {"no_rope_layers": draw.choice([None, [0, 1, 0], [1, 0, 1]]), "no_rope_layer_interval": draw.choice([1, 2]),
                             "use_sliding_window": draw.random() < 0.5, "sliding_window": draw.choice([None, 3, 30])}


def of_olmo2(draw):
    return {"attention_bias": draw.random() < 0.5}


def of_granite(draw):
    return of_biases(draw) | {"embedding_multiplier": draw.choice([1.0, 12.0]), "residual_multiplier": draw.choice([1, 0.22]),
                             "attention_multiplier": draw.choice([1.0, 0.0625]), "logits_scaling": draw.choice([1.0, 8])}


def phi3(draw, shape):
    part = draw.choice([1.0, 0.75, 0.5])
    config = dict(resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0, sliding_window=draw.choice([None, 4, 30]), partial_rotary_factor=part,
                  original_max_position_embeddings=draw.choice([8, 12, 40]), rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=0)
    rotated = int(shape.size // shape.heads * part)
    if draw.random() < 0.6 and rotated % 2 == 0:
        config["rope_parameters"] = longrope(draw, rotated // 2)
    return transformers.Phi3Config(
        **shape.ids, hidden_size=shape.size, num_hidden_layers=shape.layers, num_attention_heads=shape.heads, intermediate_size=draw.choice([24, 50]),
        num_key_value_heads=draw.choice([1, 2, shape.heads]), hidden_act=draw.choice(["silu", "gelu"]), max_position_embeddings=POSITIONS,
        initializer_range=0.3, classifier_dropout=0.0, **config)


def gemma(draw, shape):
    """What Gemma 2 and Gemma 3 have in common."""
    return dict(shape.ids, hidden_size=shape.size, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
                num_key_value_heads=draw.choice([1, 2, shape.heads]), head_dim=draw.choice([6, 8]), intermediate_size=draw.choice([24, 50]),
                hidden_activation=draw.choice(["gelu_pytorch_tanh", "gelu", "silu"]), max_position_embeddings=POSITIONS,
                query_pre_attn_scalar=draw.choice([4, 8, 256]), sliding_window=draw.choice([3, 4, 30]), attention_bias=draw.random() < 0.3,
                final_logit_softcapping=draw.choice([None, 2.0, 30.0]), attn_logit_softcapping=draw.choice([None, 1.0, 50.0]),
                initializer_range=0.3, classifier_dropout=0.0, bos_token_id=0, eos_token_id=0)


def gemma2(draw, shape):
    rope = draw.choice(ROPES)
    ropes = {"rope_parameters": dict(rope, rope_theta=draw.choice([10000.0, 500000.0]))} if rope else {}
    return transformers.Gemma2Config(**gemma(draw, shape), **ropes)


def gemma3_text(draw, shape):
    """In the keys of today, and in those of older files."""
    ropes = draw.choice([
        {}, {"rope_theta": 50000.0, "rope_local_base_freq": 500.0, "rope_scaling": draw.choice([None, {"rope_type": "linear", "factor": 8.0}])},
        {"rope_parameters": {"full_attention": dict(draw.choice(ROPES) or {"rope_type": "default"}, rope_theta=70000.0),
                             "sliding_attention": dict(draw.choice(ROPES) or {"rope_type": "default"}, rope_theta=100.0)}}])
    layers = draw.choice([{}, {"sliding_window_pattern": 2}, {"layer_types": [draw.choice(["full_attention", "sliding_attention"]) for _ in range(shape.layers)]}])
    return transformers.Gemma3TextConfig(**gemma(draw, shape), **ropes, **layers)


def gpt2_of_gguf(draw, keys):
    return transformers.GPT2Config(**keys, n_embd=64, n_layer=2, n_head=draw.choice([2, 4]), n_positions=1024, bos_token_id=1, eos_token_id=2)


def llama_like_of_gguf(make, more=lambda draw: {}):
    def config(draw, keys):
        heads = draw.choice([2, 4])
        return make(**keys, hidden_size=64, intermediate_size=96, num_hidden_layers=draw.choice([1, 12]), num_attention_heads=heads,
                    num_key_value_heads=draw.choice([1, 2, heads]), max_position_embeddings=64, pad_token_id=0, **more(draw))
    return config


def gemma_of_gguf(make):
    return llama_like_of_gguf(make, lambda draw: {"head_dim": 32, "sliding_window": draw.choice([8, 64])})


ARCHITECTURES = {
    "bert": Architecture(bert_like(transformers.BertConfig), is_encoder=True, has_token_types=True),
    "roberta": Architecture(bert_like(transformers.RobertaConfig), is_encoder=True, has_token_types=True, first_position=2, unread=("lm_head.bias",)),
    "xlm-roberta": Architecture(bert_like(transformers.XLMRobertaConfig), is_encoder=True, has_token_types=True, first_position=2, unread=("lm_head.bias",), makes_head_first=True),
    "camembert": Architecture(bert_like(transformers.CamembertConfig), is_encoder=True, has_token_types=True, first_position=2, unread=("lm_head.bias",), makes_head_first=True),
    "electra": Architecture(electra, is_encoder=True, has_token_types=True),
    "distilbert": Architecture(distilbert, is_encoder=True, takes_positions_of_choices=False),
    "deberta-v2": Architecture(deberta_v2, is_encoder=True, has_token_types=True, attentions=("eager",), tells_sequences=False),
    "albert": Architecture(albert, is_encoder=True, has_token_types=True),
    "mpnet": Architecture(bert_like(transformers.MPNetConfig), is_encoder=True, attentions=("eager",), first_position=2),
    "modernbert": Architecture(modernbert, is_encoder=True, has_windows=True),
    "gpt2": Architecture(gpt2, gguf=gpt2_of_gguf),
    "llama": Architecture(llama_like(transformers.LlamaConfig, of_llama),
                          gguf=llama_like_of_gguf(transformers.LlamaConfig, lambda draw: {"attention_bias": draw.random() < 0.5})),
    "mistral": Architecture(llama_like(transformers.MistralConfig, of_mistral), has_windows=True),
    "qwen2": Architecture(llama_like(transformers.Qwen2Config, of_qwen2), has_windows=True, gguf=llama_like_of_gguf(transformers.Qwen2Config)),
    "qwen3": Architecture(llama_like(transformers.Qwen3Config, of_qwen3), has_windows=True,
                          gguf=llama_like_of_gguf(transformers.Qwen3Config, lambda draw: {"head_dim": 128})),
    "smollm3": Architecture(llama_like(transformers.SmolLM3Config, of_smollm3), has_windows=True),
    "olmo2": Architecture(llama_like(transformers.Olmo2Config, of_olmo2), without=("token_classification", "question_answering")),
    "granite": Architecture(llama_like(transformers.GraniteConfig, of_granite),
                            without=("sequence_classification", "token_classification", "question_answering")),
    "phi3": Architecture(phi3, has_windows=True, without=("question_answering",), gguf=llama_like_of_gguf(transformers.Phi3Config),
                         not_found_in_gguf=("qkv_proj.weight", "gate_up_proj.weight")),
    "gemma2": Architecture(gemma2, attentions=("eager",), has_windows=True, without=("question_answering",), gguf=gemma_of_gguf(transformers.Gemma2Config)),
    "gemma3_text": Architecture(gemma3_text, has_windows=True, without=("token_classification", "question_answering"),
                                gguf=gemma_of_gguf(transformers.Gemma3TextConfig)),
    "t5": Architecture(t5, is_seq2seq=True),
    "bart": Architecture(bart, is_seq2seq=True, with_heads={head: HEADS[head] for head in ("sequence_classification", "question_answering")}),
}
KINDS = list(ARCHITECTURES)


def attention_of(config, attention="sdpa"):
    """The attention by which Transformers computes a model that we compute by `attention`."""
    return attention if attention in ARCHITECTURES[config.model_type].attentions else "eager"


def config_of(kind, draw):
    """A random small configuration without dropout."""
    heads = draw.choice([2, 4])
    size = heads * draw.choice([8, 10])
    layers = draw.choice([1, 2, 3])
    act = draw.choice(["gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh"])
    ids = {"vocab_size": VOCABULARY, "pad_token_id": 1, "tie_word_embeddings": draw.random() < 0.6}
    return ARCHITECTURES[kind].config(draw, Shape(heads, size, layers, act, ids))
