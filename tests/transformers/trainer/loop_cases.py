"""The trainings that tests/transformers/trainer/loop_live.py compares: tiny models, rows and sets of arguments."""
import math
import random

IGNORED = -100
VOCABULARY, CLASSES = 48, 3

# ---- Models and rows ----------------------------------------------------------------------------

BERT = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=24,
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.15, pad_token_id=0)
GPT2 = dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=24, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.15,
            bos_token_id=1, eos_token_id=1, pad_token_id=0)
LLAMA = dict(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
             max_position_embeddings=24, initializer_range=0.15, bos_token_id=1, eos_token_id=1, pad_token_id=0)
DISTILBERT = dict(vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=24, dropout=0.0, attention_dropout=0.0,
                  seq_classif_dropout=0.0, qa_dropout=0.0, initializer_range=0.15, pad_token_id=0)

# kind -> task, collator, configuration and its class.
KINDS = {
    "classes": ("sequence_classification", "padding", "BertConfig", dict(BERT, num_labels=CLASSES)),
    "number": ("sequence_classification", "padding", "BertConfig", dict(BERT, num_labels=1)),
    "distil": ("sequence_classification", "padding", "DistilBertConfig", dict(DISTILBERT, num_labels=CLASSES)),
    "tokens": ("token_classification", "token_classification", "BertConfig", dict(BERT, num_labels=CLASSES)),
    "answers": ("question_answering", "padding", "BertConfig", BERT),
    "masks": ("masked_lm", "language_modeling", "BertConfig", BERT),
    "gpt2": ("causal_lm", "language_modeling", "GPT2Config", GPT2),
    "llama": ("causal_lm", "language_modeling", "LlamaConfig", LLAMA),
    "numbers": ("sequence_classification", "padding", "BertConfig", dict(BERT, num_labels=CLASSES, problem_type="regression")),
    "flags": ("sequence_classification", "padding", "BertConfig", dict(BERT, num_labels=CLASSES)),
    "few tokens": ("token_classification", "token_classification", "BertConfig", dict(BERT, num_labels=CLASSES)),
    "few masks": ("masked_lm", "token_classification", "BertConfig", BERT),
    "beyond": ("question_answering", "padding", "BertConfig", BERT),
}
AUTO_MODELS = {"sequence_classification": "AutoModelForSequenceClassification", "token_classification": "AutoModelForTokenClassification",
               "question_answering": "AutoModelForQuestionAnswering", "masked_lm": "AutoModelForMaskedLM", "causal_lm": "AutoModelForCausalLM"}


def make_tokenizer(folder):
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(VOCABULARY - 5)]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=24, **names)
    fast.save_pretrained(folder)


def make_model(kind, folder):
    import torch
    import transformers
    task, _, config_name, settings = KINDS[kind]
    torch.manual_seed(sum(map(ord, kind)))
    config = getattr(transformers, config_name)(**settings)
    model = getattr(transformers, AUTO_MODELS[task]).from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.05)
    model.save_pretrained(folder)


def make_rows(draw, kind, count):
    rows = []
    for _ in range(count):
        length = draw.randint(3, 12)
        ids = [draw.randrange(5, VOCABULARY) for _ in range(length)]
        row = {"input_ids": ids, "attention_mask": [1] * length}
        if kind in ("classes", "distil"):
            row["label"] = (ids[0] + draw.choice([0, 0, 1])) % CLASSES
        elif kind == "number":
            row["label"] = ids[0] / VOCABULARY
        elif kind == "tokens":
            row["labels"] = [IGNORED if draw.random() < 0.25 else i % CLASSES for i in ids]
        elif kind == "answers":
            start = draw.randrange(length)
            row |= {"start_positions": start, "end_positions": draw.randrange(start, length)}
        elif kind == "numbers":
            row["labels"] = [draw.uniform(-2, 2) for _ in range(CLASSES)]
        elif kind == "flags":
            row["labels"] = [float(draw.random() < 0.4) for _ in range(CLASSES)]
        elif kind.startswith("few "):  # Many rows have none.
            labelled = draw.choice([0, 0, 0.2, 0.9])
            row["labels"] = [i % CLASSES if draw.random() < labelled else IGNORED for i in ids]
        elif kind == "beyond":  # Answers of which either end, or both, are beyond the text.
            ends = [VOCABULARY if draw.random() < 0.4 else draw.randrange(3) for _ in range(2)]
            row |= dict(zip(("start_positions", "end_positions"), ends))
        rows.append(row)
    return rows


# ---- A case -------------------------------------------------------------------------------------

BASE = dict(learning_rate=2e-3, per_device_train_batch_size=4, per_device_eval_batch_size=5, num_train_epochs=2, logging_steps=1, save_strategy="no",
            adam_epsilon=1e-5, report_to="none", use_cpu=True, disable_tqdm=True, seed=7)


class Case:
    def __init__(self, name, kind="classes", rows=18, **given):
        self.name, self.kind, self.rows = name, kind, rows
        self.extras = {key: given.pop(key) for key in list(given) if key in EXTRAS}
        self.arguments = BASE | given
        self.eval_rows = self.extras.get("eval_rows", 11)
        self.processes = self.extras.get("processes", 1)
        self.tolerance = self.extras.get("tolerance", 1e-4)
        self.weights = self.extras.get("weights", 1e-5)


EXTRAS = ("eval_rows", "processes", "tolerance", "weights", "metrics", "function_metrics", "compute_loss", "callbacks", "evaluate", "predict", "named",
          "extra_columns", "collator", "tokenizer", "streams", "resume_from", "train", "lengths", "needs")


def table():
    """All cases by name; those whose name begins with * belong to --quick too."""
    C, cases = Case, []
    add = cases.append
    add(C("*plain", eval_strategy="epoch", save_strategy="epoch", metrics=["accuracy", "f1"], predict=True, evaluate=True))
    for steps in (2, 3, 5):
        add(C(("*" if steps == 3 else "") + f"accumulation of {steps}", gradient_accumulation_steps=steps, eval_strategy="steps", eval_steps=2))
    add(C("one row left over", rows=17, per_device_train_batch_size=8))
    add(C("batch larger than the set", rows=5, per_device_train_batch_size=8, gradient_accumulation_steps=2))
    add(C("drop_last", rows=18, dataloader_drop_last=True))
    add(C("one epoch", num_train_epochs=1, logging_strategy="epoch"))
    add(C("*one and a half epochs", num_train_epochs=1.5, logging_strategy="epoch", eval_strategy="epoch", save_strategy="epoch"))
    add(C("half an epoch", num_train_epochs=0.5))
    add(C("max_steps inside an epoch", max_steps=7, save_strategy="steps", save_steps=3, eval_strategy="steps", eval_steps=3))
    add(C("max_steps over many epochs", max_steps=13, gradient_accumulation_steps=2, logging_steps=4))
    for name in ("linear", "cosine", "cosine_with_restarts", "polynomial", "constant", "constant_with_warmup", "inverse_sqrt", "cosine_with_min_lr",
                 "cosine_warmup_with_min_lr", "warmup_stable_decay"):
        more = {"cosine_with_min_lr": {"min_lr_rate": 0.1}, "cosine_warmup_with_min_lr": {"min_lr_rate": 0.1}, "cosine_with_restarts": {"num_cycles": 2},
                "warmup_stable_decay": {"num_decay_steps": 3}, "polynomial": {"power": 2.0}}.get(name, {})
        add(C(f"schedule {name}", lr_scheduler_type=name, lr_scheduler_kwargs=more, warmup_steps=3))
    add(C("warmup of a share", warmup_steps=0.25))
    add(C("*reduce_lr_on_plateau", lr_scheduler_type="reduce_lr_on_plateau", lr_scheduler_kwargs={"patience": 0, "factor": 0.5, "threshold": 0.05},
          eval_strategy="steps", eval_steps=1, metric_for_best_model="loss", save_strategy="steps", save_steps=4, load_best_model_at_end=True))
    add(C("greedy", lr_scheduler_type="greedy", lr_scheduler_kwargs={"patience": 0, "factor": 0.7}, eval_strategy="steps", eval_steps=1,
          metric_for_best_model="loss"))
    for optim, options in {"adamw_torch": "", "sgd": "", "adagrad": "lr_decay=0.1", "rmsprop": "alpha=0.9,momentum=0.3,eps=1e-5"}.items():
        add(C(f"optim {optim}", optim=optim, optim_args=options or None, weight_decay=0.1))
    add(C("optim sgd with momentum", optim="sgd", optim_args="momentum=0.9,nesterov=True", learning_rate=0.02))
    add(C("optim lion_32bit", optim="lion_32bit", learning_rate=2e-4, weight_decay=0.1, save_strategy="epoch", needs="bitsandbytes"))
    add(C("optim schedule_free_adamw", optim="schedule_free_adamw", lr_scheduler_type="constant", weight_decay=0.05, warmup_steps=3,
          eval_strategy="steps", eval_steps=2, save_strategy="epoch", needs="schedulefree"))
    add(C("*optim adafactor", optim="adafactor", weight_decay=0.05, save_strategy="epoch"))
    add(C("weight_decay", weight_decay=0.3, adam_beta1=0.8, adam_beta2=0.95))
    add(C("no clipping", max_grad_norm=0.0))
    add(C("clipping", max_grad_norm=0.05))
    add(C("label smoothing", label_smoothing_factor=0.15, eval_strategy="epoch", gradient_accumulation_steps=2, metrics=["accuracy"]))
    add(C("label smoothing of tokens", kind="tokens", label_smoothing_factor=0.15, eval_strategy="epoch", gradient_accumulation_steps=2))
    add(C("label smoothing of a causal model", kind="gpt2", label_smoothing_factor=0.15, eval_strategy="epoch", gradient_accumulation_steps=3))
    add(C("logging by epoch", logging_strategy="epoch", eval_strategy="epoch"))
    add(C("no logs", logging_strategy="no", eval_strategy="epoch", save_strategy="epoch"))
    add(C("no logs but the first", logging_strategy="no", logging_first_step=True))
    add(C("logging_first_step", logging_first_step=True, logging_steps=4))
    add(C("shares of steps", logging_steps=0.3, eval_strategy="steps", eval_steps=0.25, save_strategy="steps", save_steps=0.5, load_best_model_at_end=True))
    add(C("eval_steps of logging_steps", eval_strategy="steps", logging_steps=3))
    add(C("eval_delay in steps", eval_strategy="steps", eval_steps=2, eval_delay=5))
    add(C("eval_delay in epochs", eval_strategy="epoch", eval_delay=1.5, num_train_epochs=3))
    add(C("*eval_on_start and several sets", eval_on_start=True, eval_strategy="epoch", named=True, metrics=["accuracy"],
          metric_for_best_model="eval_dev_loss", load_best_model_at_end=True, save_strategy="epoch"))
    add(C("eval_on_start on a plateau", eval_on_start=True, eval_strategy="epoch", lr_scheduler_type="reduce_lr_on_plateau", metric_for_best_model="loss"))
    for limit in (1, 2):
        add(C(f"save_total_limit {limit}", save_strategy="steps", save_steps=2, save_total_limit=limit))
        for metric, greater in (("loss", None), ("accuracy", True), ("loss", True)):
            add(C(f"{'*' if limit == 1 and greater and metric == 'loss' else ''}save_total_limit {limit}, best of {metric}, greater {greater}",
                  save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=2, save_total_limit=limit, load_best_model_at_end=True,
                  metric_for_best_model=metric, greater_is_better=greater, metrics=["accuracy"], num_train_epochs=3))
    add(C("save best", save_strategy="best", eval_strategy="steps", eval_steps=2, metric_for_best_model="accuracy", metrics=["accuracy"], save_total_limit=2))
    add(C("save best and load it", save_strategy="best", eval_strategy="epoch", metric_for_best_model="loss", greater_is_better=True,
          load_best_model_at_end=True, num_train_epochs=3))
    add(C("save_only_model", save_strategy="epoch", save_only_model=True))
    add(C("best metric without checkpoints", eval_strategy="epoch", metric_for_best_model="loss"))
    add(C("*early stopping", save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=1, load_best_model_at_end=True, num_train_epochs=4,
          learning_rate=0.02, metric_for_best_model="loss", weights=1e-4, callbacks={"early_stopping": {"patience": 2, "threshold": 0.01}}))
    add(C("early stopping by epoch", save_strategy="epoch", eval_strategy="epoch", load_best_model_at_end=True, num_train_epochs=6, greater_is_better=True,
          metric_for_best_model="loss", callbacks={"early_stopping": {"patience": 1}}))
    add(C("*callbacks that ask", num_train_epochs=3, logging_steps=50, eval_strategy="epoch", save_strategy="epoch", callbacks={"asks": [
        {"step": 2, "flag": "should_log"}, {"step": 3, "flag": "should_evaluate"}, {"step": 4, "flag": "should_save"},
        {"step": 7, "flag": "should_epoch_stop"}, {"step": 9, "flag": "should_training_stop"}]}))
    add(C("epoch stop with accumulation", num_train_epochs=3, gradient_accumulation_steps=2, save_strategy="epoch", callbacks={"asks": [
        {"step": 1, "flag": "should_epoch_stop"}, {"step": 3, "flag": "should_epoch_stop"}]}))
    add(C("columns that nobody takes", extra_columns=True, eval_strategy="epoch"))
    add(C("prediction_loss_only", prediction_loss_only=True, eval_strategy="epoch", metrics=["accuracy"]))
    for counted in ("all", "non_padding"):
        add(C(f"tokens seen: {counted}", include_num_input_tokens_seen=counted, eval_strategy="epoch", save_strategy="epoch"))
    add(C("gradient_checkpointing", gradient_checkpointing=True))
    add(C("gradient_checkpointing of llama", kind="llama", gradient_checkpointing=True))
    add(C("bf16", bf16=True, tolerance=3e-2, weights=3e-2, eval_strategy="epoch"))
    add(C("compute_loss_func", compute_loss=True, gradient_accumulation_steps=2, eval_strategy="epoch"))
    add(C("compute_loss_func of tokens", kind="tokens", compute_loss=True, gradient_accumulation_steps=3, eval_strategy="epoch"))
    add(C("*gpt2", kind="gpt2", gradient_accumulation_steps=3, eval_strategy="epoch", predict=True, include_num_input_tokens_seen="non_padding"))
    add(C("gpt2 with a function", kind="gpt2", function_metrics=True, eval_strategy="epoch", include_for_metrics=["inputs", "loss"], eval_accumulation_steps=1))
    add(C("*llama", kind="llama", gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=3, save_strategy="steps", save_steps=3))
    add(C("*tokens", kind="tokens", gradient_accumulation_steps=2, eval_strategy="epoch", metrics=["accuracy"], predict=True))
    add(C("tokens with a function", kind="tokens", function_metrics=True, eval_strategy="epoch", include_for_metrics=["inputs", "loss"], predict=True))
    add(C("*answers", kind="answers", gradient_accumulation_steps=3, eval_strategy="epoch", predict=True))
    add(C("masks", kind="masks", gradient_accumulation_steps=2, eval_strategy="epoch"))
    add(C("numbers", kind="number", gradient_accumulation_steps=2, eval_strategy="epoch", function_metrics=True, predict=True))
    add(C("distil", kind="distil", gradient_accumulation_steps=2, eval_strategy="epoch", metrics=["accuracy"], predict=True))
    add(C("full_determinism", full_determinism=True, eval_strategy="epoch"))
    add(C("data_seed", data_seed=123))
    add(C("sequential", train_sampling_strategy="sequential"))
    # The original draws from 42, whatever `seed` says.
    add(C("*batch_rebalance", rows=43, train_sampling_strategy="batch_rebalance", seed=42, gradient_accumulation_steps=3, save_strategy="steps",
          save_steps=2, resume_from=["*"]))
    add(C("batch_rebalance, drop_last", rows=43, train_sampling_strategy="batch_rebalance", seed=42, gradient_accumulation_steps=2,
          dataloader_drop_last=True))
    add(C("batch_rebalance, fewer rows than batches", rows=3, train_sampling_strategy="batch_rebalance", seed=42, gradient_accumulation_steps=5))
    add(C("a stream", streams=True, rows=16, max_steps=11, gradient_accumulation_steps=2, save_strategy="steps", save_steps=4))
    add(C("rows of one length, default collator", collator="default", tokenizer=False, lengths=8, eval_strategy="epoch"))
    add(C("*packed rows", kind="llama", collator="flattening", gradient_accumulation_steps=2))
    add(C("packed rows, gpt2", kind="gpt2", collator="flattening", num_train_epochs=3, learning_rate=1e-2, gradient_checkpointing=True))
    add(C("bf16_full_eval", bf16_full_eval=True, evaluate=True, predict=True, tolerance=3e-2, weights=2e-2))
    add(C("evaluate and predict alone", train=False, evaluate=True, predict=True, metrics=["accuracy", "f1"]))
    add(C("neither average nor filter", average_tokens_across_devices=False, logging_nan_inf_filter=False, kind="gpt2", gradient_accumulation_steps=2))
    for filters in (True, False):
        add(C(f"losses that are not finite, filtered {filters}", optim="sgd", learning_rate=1e19, logging_nan_inf_filter=filters, max_grad_norm=0.0,
              eval_strategy="epoch", metric_for_best_model="loss", save_strategy="epoch", logging_steps=2, weights=math.inf))
    # Two processes.
    add(C("*two processes", processes=2, rows=19, eval_strategy="epoch", save_strategy="epoch", metrics=["accuracy"], predict=True, evaluate=True))
    add(C("two processes, gpt2", processes=2, kind="gpt2", rows=21, gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=2,
          include_num_input_tokens_seen="all", save_strategy="steps", save_steps=2))
    add(C("two processes, tokens", processes=2, kind="tokens", rows=21, gradient_accumulation_steps=2, eval_strategy="epoch", function_metrics=True,
          predict=True, include_for_metrics=["inputs", "loss"]))
    add(C("two processes, means of ranks", processes=2, kind="tokens", average_tokens_across_devices=False, gradient_accumulation_steps=2))
    add(C("two processes, packed rows", processes=2, kind="gpt2", rows=24, collator="flattening", gradient_accumulation_steps=2))
    add(C("two processes, split batches", processes=2, rows=19, accelerator_config={"split_batches": True}))
    add(C("two processes, batch_rebalance", processes=2, kind="tokens", rows=45, train_sampling_strategy="batch_rebalance", seed=42,
          gradient_accumulation_steps=2, num_train_epochs=3))
    add(C("two processes, answers", processes=2, kind="answers", rows=19, eval_strategy="epoch", predict=True))
    # Going on: the steps of the first checkpoint that is left.
    for accumulation in (1, 2):
        star = "*" if accumulation == 2 else ""
        add(C(f"{star}going on inside an epoch, accumulation of {accumulation}", rows=22, num_train_epochs=3, gradient_accumulation_steps=accumulation,
              save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=2, load_best_model_at_end=True, resume_from=[2, "*"]))
    add(C("going on at the end of an epoch", num_train_epochs=3, save_strategy="epoch", eval_strategy="epoch", logging_strategy="epoch", resume_from=["*"]))
    add(C("going on, gpt2", kind="gpt2", max_steps=9, save_strategy="steps", save_steps=3, include_num_input_tokens_seen="all", resume_from=["*"]))
    add(C("going on, ignore_data_skip", max_steps=9, save_strategy="steps", save_steps=3, ignore_data_skip=True, resume_from=["*"]))
    add(C("going on, a stream", streams=True, max_steps=9, save_strategy="steps", save_steps=3, resume_from=["*"]))
    for optim, options in {"sgd": "momentum=0.9", "adagrad": None, "rmsprop": "eps=1e-5", "adafactor": None}.items():
        add(C(f"going on, {optim}", optim=optim, optim_args=options, max_steps=8, save_strategy="steps", save_steps=3, resume_from=[3]))
    add(C("going on, lion_32bit", optim="lion_32bit", learning_rate=2e-4, max_steps=8, save_strategy="steps", save_steps=3, resume_from=[3],
          needs="bitsandbytes"))
    add(C("going on, schedule_free_adamw", optim="schedule_free_adamw", lr_scheduler_type="constant", warmup_steps=3, max_steps=8,
          save_strategy="steps", save_steps=3, evaluate=True, resume_from=[3], needs="schedulefree"))
    add(C("going on, plateau", lr_scheduler_type="reduce_lr_on_plateau", lr_scheduler_kwargs={"patience": 1, "factor": 0.5}, eval_strategy="steps",
          eval_steps=1, metric_for_best_model="loss", save_strategy="steps", save_steps=4, resume_from=["*"]))
    add(C("going on, greedy", lr_scheduler_type="greedy", lr_scheduler_kwargs={"patience": 1, "factor": 0.7}, eval_strategy="steps",
          eval_steps=1, metric_for_best_model="loss", save_strategy="steps", save_steps=4, resume_from=["*"]))
    add(C("going on, early stopping", save_strategy="steps", save_steps=2, eval_strategy="steps", eval_steps=1, load_best_model_at_end=True,
          num_train_epochs=4, learning_rate=0.02, metric_for_best_model="loss", restore_callback_states_from_checkpoint=True, weights=1e-4,
          callbacks={"early_stopping": {"patience": 3, "threshold": 0.01}}, resume_from=[2]))
    add(C("going on, two processes", processes=2, rows=21, max_steps=7, save_strategy="steps", save_steps=2, resume_from=[2, 4]))
    add(C("going on, split batches", processes=2, rows=21, max_steps=7, save_strategy="steps", save_steps=2, resume_from=[2],
          accelerator_config={"split_batches": True}))
    return cases


def random_case(draw, number):
    """A combination of what the table has alone."""
    kind = draw.choice(["classes", "classes", "tokens", "answers", "gpt2", "llama", "distil"])
    given = dict(rows=draw.randint(9, 30), per_device_train_batch_size=draw.randint(1, 6), per_device_eval_batch_size=draw.randint(1, 7),
                 gradient_accumulation_steps=draw.choice([1, 1, 2, 3, 5]), learning_rate=draw.choice([1e-3, 5e-3]), seed=draw.randrange(1000),
                 weight_decay=draw.choice([0, 0.1]), max_grad_norm=draw.choice([1.0, 0.0, 0.1]), warmup_steps=draw.choice([0, 2, 0.2]),
                 logging_strategy=draw.choice(["steps", "steps", "epoch"]), logging_steps=draw.choice([1, 2, 3, 0.2]), logging_first_step=draw.random() < 0.3,
                 include_num_input_tokens_seen=draw.choice(["no", "no", "all", "non_padding"]), eval_rows=draw.randint(1, 17),
                 lr_scheduler_type=draw.choice(["linear", "cosine", "constant", "constant_with_warmup", "inverse_sqrt"]))
    given |= draw.choice([{"num_train_epochs": draw.choice([1, 2, 1.5, 2.25])}, {"max_steps": draw.randint(1, 12)}])
    if kind not in ("answers",):
        given["label_smoothing_factor"] = draw.choice([0, 0, 0.1])
    when = draw.choice(["steps", "epoch"])
    if draw.random() < 0.7:
        given |= {"eval_strategy": when, "eval_steps": draw.choice([1, 2, 3]), "eval_delay": draw.choice([0, 0, 2]), "eval_on_start": draw.random() < 0.2}
        given["save_strategy"] = draw.choice([when, "no"])
        given["save_steps"] = given["eval_steps"] * draw.choice([1, 2])
        if given["save_strategy"] == when and draw.random() < 0.6:
            given |= {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": draw.choice([None, True])}
            if given["eval_delay"]:
                given["eval_delay"] = 0
        if draw.random() < 0.3 and given.get("load_best_model_at_end"):
            given["callbacks"] = {"early_stopping": {"patience": draw.randint(1, 3), "threshold": draw.choice([0.0, 0.02])}}
    else:
        given |= {"save_strategy": draw.choice(["steps", "epoch", "no"]), "save_steps": draw.randint(1, 4)}
    given["save_total_limit"] = draw.choice([None, None, 1, 2])
    if given["save_strategy"] != "no" and draw.random() < 0.4 and "callbacks" not in given:
        given["resume_from"] = ["*"]
        given["save_total_limit"] = None
    if draw.random() < 0.3:  # Adafactor divides by the size of a whole tensor, and a third of GPT-2's c_attn.bias has rounding for a gradient.
        given["optim"] = "adamw_torch" if kind == "gpt2" else draw.choice(["adamw_torch", "adafactor"])
    if draw.random() < 0.3:
        given["predict"] = True
    if kind in ("classes", "tokens", "distil") and draw.random() < 0.5:
        given |= draw.choice([{"metrics": ["accuracy"]}, {"function_metrics": True}])
    if draw.random() < 0.08:  # Python takes seconds to start them.
        return Case(f"random {number}, 2 processes", kind=kind, weights=1e-4, processes=2, **given)
    return Case(f"random {number}", kind=kind, weights=1e-4, **given)
