"""The side of Transformers' Trainer in tests/transformers/trainer/loop_live.py: answers what trainer_probe answers."""
import json

import numpy as np
import torch
import transformers
from accelerate.state import AcceleratorState, GradientState, PartialState
from transformers import trainer_callback

from loop_cases import AUTO_MODELS, IGNORED


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)


class Recorder(transformers.TrainerCallback):
    def __init__(self):
        self.events = []


for name in [name for name in dir(transformers.TrainerCallback) if name.startswith("on_") and name != "on_push_begin"]:
    setattr(Recorder, name, lambda self, args, state, control, _name=name, **_: self.events.append([_name, state.global_step]))


class Asking(transformers.TrainerCallback):
    def __init__(self, asks):
        self.asks = asks

    def on_step_end(self, args, state, control, **_):
        for ask in self.asks:
            if ask["step"] == state.global_step:
                setattr(control, ask["flag"], True)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def macro_f1(labels, guesses):
    classes = np.union1d(labels, guesses)
    return float(np.mean([2 * np.sum((labels == c) & (guesses == c)) / (np.sum(labels == c) + np.sum(guesses == c)) for c in classes]))


def scores(names):
    def compute(prediction):
        guesses = prediction.predictions.argmax(-1)
        kept = prediction.label_ids != IGNORED
        labels, guesses = prediction.label_ids[kept], guesses[kept]
        known = {"accuracy": lambda: float((labels == guesses).mean()), "f1": lambda: macro_f1(labels, guesses)}
        return {name: known[name]() for name in names}
    return compute


def sums(prediction):
    first = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
    kept = first[prediction.label_ids != IGNORED] if first.ndim == 3 else first
    values = {"mean_prediction": float(kept.astype(np.float64).mean()), "rows": float(len(first)),
              "labels": float(np.asarray(prediction.label_ids).astype(np.float64).sum())}
    if prediction.inputs is not None:
        values["inputs"] = float(prediction.inputs.astype(np.float64).sum())
    if prediction.losses is not None:
        values["losses"] = float(prediction.losses.astype(np.float64).mean())
    return values


def loss_of(outputs, labels, num_items_in_batch=None):
    logits = outputs.logits.reshape(-1, outputs.logits.shape[-1])
    total = torch.nn.functional.cross_entropy(logits, labels.reshape(-1), reduction="sum")
    return total / (num_items_in_batch if num_items_in_batch is not None else labels.ne(IGNORED).sum())


def python_collator(spec, tokenizer):
    name = spec.get("collator", "none")
    if name == "padding":
        return transformers.DataCollatorWithPadding(tokenizer)
    if name == "token_classification":
        return transformers.DataCollatorForTokenClassification(tokenizer)
    if name == "language_modeling":
        return transformers.DataCollatorForLanguageModeling(tokenizer, mlm=spec["task"] == "masked_lm", seed=7)
    if name == "flattening":
        return transformers.DataCollatorWithFlattening()
    return transformers.default_data_collator if name == "default" else None


def python_callbacks(spec, recorder):
    callbacks, given = [], spec.get("callbacks", {})
    if "early_stopping" in given:
        options = given["early_stopping"]
        callbacks.append(transformers.EarlyStoppingCallback(options["patience"], options.get("threshold", 0.0)))
    if "asks" in given:
        callbacks.append(Asking(given["asks"]))
    return callbacks + [recorder]


def evaluation_rows(given):
    if given is None or isinstance(given, str):
        return given and Rows(read_json(given))
    return {name: Rows(read_json(file)) for name, file in given.items()}


def python_trainer(spec, recorder):
    arguments = transformers.TrainingArguments(**spec["arguments"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(spec["tokenizer"]) if "tokenizer" in spec else None
    metrics = sums if spec.get("function_metrics") else scores(spec["metrics"]) if spec.get("metrics") else None
    kind = Stream if spec.get("streams") else Rows
    trainer = (transformers.Trainer if spec.get("whole") else MeanOfAll)(
        model=getattr(transformers, AUTO_MODELS[spec["task"]]).from_pretrained(spec["model"]), args=arguments, data_collator=python_collator(spec, tokenizer),
        train_dataset=kind(read_json(spec["data"]["train"])),
        eval_dataset=evaluation_rows(spec["data"].get("eval")),
        processing_class=tokenizer, compute_metrics=metrics, compute_loss_func=loss_of if spec.get("compute_loss") else None,
        callbacks=python_callbacks(spec, recorder))
    trainer.remove_callback(trainer_callback.PrinterCallback)
    trainer._loss_shifts_labels = spec["task"] == "causal_lm"
    trainer.means_labels = spec["task"] in ("token_classification", "masked_lm", "causal_lm")
    mend(trainer, spec, arguments)
    return trainer


class MeanOfAll(transformers.Trainer):
    """Transformers' Trainer, whose loss of an evaluation is the mean over all that was judged: see DELIBERATE."""

    def prediction_step(self, model, inputs, *given, **named):
        loss, logits, labels = super().prediction_step(model, inputs, *given, **named)
        if loss is None:
            return loss, logits, labels
        inputs = self._prepare_inputs(inputs)
        rows, state = len(inputs["input_ids"]), self.accelerator.gradient_state
        counted = rows
        if state.end_of_dataloader and state.remainder > 0:
            counted = min(max(state.remainder - self.args.process_index * rows, 0), rows)
        if counted == 0:
            return loss, logits, labels
        longest = inputs["attention_mask"][:counted].sum(1).max()  # The loss of answers is one over all places, padding too.
        own = {name: tensor[:counted, :longest] if tensor.dim() > 1 else tensor[:counted] for name, tensor in inputs.items()}
        wanted = own.get("labels")
        with torch.no_grad(), self.compute_loss_context_manager():
            loss = self.compute_loss(self.model, own).detach().float().mean()
        if self.means_labels and wanted is not None and not wanted.is_floating_point():
            counted = (wanted[:, 1:] if self._loss_shifts_labels else wanted).ne(IGNORED).sum().item()
        if counted and (loss.isfinite() or not self.args.logging_nan_inf_filter):
            self.judged += torch.tensor([loss.item() * counted, counted], dtype=torch.float64)
        return loss, logits, labels

    def evaluation_loop(self, *given, metric_key_prefix="eval", **named):
        self.judged = torch.zeros(2, dtype=torch.float64)
        output = super().evaluation_loop(*given, metric_key_prefix=metric_key_prefix, **named)
        if self.args.world_size > 1:
            torch.distributed.all_reduce(self.judged)
        if f"{metric_key_prefix}_loss" in output.metrics and self.judged[1] > 0:
            output.metrics[f"{metric_key_prefix}_loss"] = (self.judged[0] / self.judged[1]).item()
        return output


def mend(trainer, spec, arguments):
    """Losses that are a share of the step's, where Transformers' are not: see DELIBERATE."""
    if arguments.gradient_accumulation_steps == 1 and arguments.world_size == 1 and spec["task"] != "causal_lm":
        return
    name = type(trainer.model).__name__
    trainer._loss_shifts_labels = spec["task"] == "causal_lm"
    if getattr(trainer.model.config, "num_labels", 0) == 1:
        trainer.model_accepts_loss_kwargs = False
    elif spec["task"] in ("sequence_classification", "token_classification", "masked_lm") and name.startswith(("Bert", "Distil")):
        if trainer.compute_loss_func is None and not arguments.label_smoothing_factor:
            trainer.compute_loss_func = loss_of


def array_of(value):
    return {"shape": list(value.shape), "values": value.astype(np.float64).reshape(-1).tolist()}


def run_python_here(spec):
    """What the probe answers, by Transformers' Trainer."""
    for state in (AcceleratorState, GradientState, PartialState):
        state._shared_state.clear()
    recorder, answer = Recorder(), {}
    trainer = python_trainer(spec, recorder)
    if spec.get("train", True):
        output = trainer.train(resume_from_checkpoint=spec.get("resume"))
        answer |= {"global_step": output.global_step, "training_loss": output.training_loss, "metrics": output.metrics}
        trainer.save_metrics("train", output.metrics)
        trainer.save_state()
    if spec.get("evaluate"):
        answer["evaluation"] = trainer.evaluate()
        trainer.save_metrics("eval", answer["evaluation"])
    if "predict" in spec:
        output = trainer.predict(Rows(read_json(spec["predict"])))
        outputs = output.predictions if isinstance(output.predictions, tuple) else (output.predictions,)
        labels = output.label_ids[0] if isinstance(output.label_ids, tuple) else output.label_ids
        answer["predictions"] = {"outputs": [array_of(value) for value in outputs], "labels": array_of(labels), "metrics": output.metrics}
    trainer.save_model()
    torch.use_deterministic_algorithms(False)
    return answer | {"events": recorder.events}
