// Trains as tests/transformers/trainer/loop_live.py asks for.
//
// usage: trainer_probe SPEC.json
//
// SPEC: {"arguments": {…}, "model": FOLDER, "task": "causal_lm", "data": {"train": FILE, "eval":
// FILE or {NAME: FILE}}} and optionally "tokenizer": FOLDER, "collator", "streams": bool,
// "metrics": ["accuracy", …], "function_metrics": bool, "compute_loss": bool, "callbacks":
// {"early_stopping": {…}, "asks": [{"step", "flag"}, …]}, "resume": true or FOLDER, "evaluate":
// bool, "predict": FILE, "train": false. A data file is a list of rows. Prints one JSON object:
// what train() returned, the events of callbacks, and what was asked for besides.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/masked_select.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers.h"

namespace {

using namespace accelerate;
using Json = nlohmann::ordered_json;

Json read(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot open " + file);
  return Json::parse(stream);
}

// --- rows ----------------------------------------------------------------------------------------

Value value_of(const Json& given) {
  if (given.is_number_integer()) return given.get<std::int64_t>();
  if (given.is_number()) return given.get<double>();
  if (given.is_boolean()) return given.get<bool>();
  if (given.is_string()) return given.get<std::string>();
  if (!given.is_array()) throw std::runtime_error("a cell is " + given.dump());
  if (given.empty() || given.front().is_number_integer())
    return given.get<std::vector<std::int64_t>>();
  return given.get<std::vector<double>>();
}

Dataset rows_of(const std::string& file) {
  std::vector<Row> rows;
  for (const Json& given : read(file)) {
    Row row;
    for (const auto& [name, cell] : given.items()) row.set(name, value_of(cell));
    rows.push_back(std::move(row));
  }
  return Dataset::from_rows(rows);
}

// Rows that do not tell how many they are.
IterableDataset stream_of(const Dataset& rows) {
  return IterableDataset([rows](std::size_t) {
    return [rows, next = std::size_t{0}]() mutable -> std::optional<Row> {
      return next < rows.size() ? std::optional<Row>(rows[next++]) : std::nullopt;
    };
  });
}

TrainerDataset train_data(const Json& spec) {
  const Dataset rows = rows_of(spec.at("data").at("train"));
  if (spec.value("streams", false)) return stream_of(rows);
  return rows;
}

EvalDatasets eval_data(const Json& data) {
  if (!data.contains("eval")) return {};
  const Json& given = data["eval"];
  if (given.is_string()) return rows_of(given);
  EvalDatasets::Named sets;
  for (const auto& [name, file] : given.items()) sets.emplace_back(name, rows_of(file));
  return sets;
}

// --- parts ---------------------------------------------------------------------------------------

TrainableModel model_of(const Json& spec) {
  const auto folder = spec.at("model").get<std::string>();
  const auto task = spec.at("task").get<std::string>();
  if (task == "sequence_classification")
    return AutoModelForSequenceClassification::from_pretrained(folder);
  if (task == "token_classification")
    return AutoModelForTokenClassification::from_pretrained(folder);
  if (task == "question_answering") return AutoModelForQuestionAnswering::from_pretrained(folder);
  if (task == "masked_lm") return AutoModelForMaskedLM::from_pretrained(folder);
  if (task == "causal_lm") return AutoModelForCausalLM::from_pretrained(folder);
  throw std::runtime_error("unknown task " + task);
}

DataCollator collator_of(const Json& spec, const std::optional<PreTrainedTokenizer>& tokenizer) {
  const auto name = spec.value("collator", "none");
  if (name == "none") return {};
  if (name == "default") return default_data_collator;
  if (name == "padding") return DataCollatorWithPadding{.tokenizer = tokenizer.value()};
  if (name == "token_classification")
    return DataCollatorForTokenClassification{.tokenizer = tokenizer.value()};
  if (name == "language_modeling")
    return DataCollatorForLanguageModeling{
        .tokenizer = tokenizer.value(), .mlm = spec.at("task") == "masked_lm", .seed = 7};
  if (name == "flattening") return DataCollatorWithFlattening{};
  throw std::runtime_error("unknown collator " + name);
}

MetricHandle metric_of(const std::string& name) {
  if (name == "accuracy") return Accuracy();
  if (name == "f1") return F1({.average = "macro"});
  throw std::runtime_error("unknown metric " + name);
}

// What shows that every prediction is there once, with its label. Logits of padding are nobody's.
LogValues sums_of(const EvalPrediction& given) {
  LogValues values;
  const bool of_tokens = given.predictions.dim() == 3;
  const at::Tensor kept =
      of_tokens ? given.predictions.masked_select(given.label_ids.ne(-100).unsqueeze(-1))
                : given.predictions;
  values.set("mean_prediction", kept.to(at::kDouble).mean().item<double>());
  values.set("rows", static_cast<double>(given.predictions.size(0)));
  values.set("labels", given.label_ids.to(at::kDouble).sum().item<double>());
  if (given.inputs.defined())
    values.set("inputs", given.inputs.to(at::kDouble).sum().item<double>());
  if (given.losses.defined())
    values.set("losses", given.losses.to(at::kDouble).mean().item<double>());
  return values;
}

ComputeMetrics metrics_of(const Json& spec) {
  if (spec.value("function_metrics", false)) return ComputeMetrics(sums_of);
  std::vector<MetricHandle> members;
  for (const auto& name : spec.value("metrics", std::vector<std::string>()))
    members.push_back(metric_of(name));
  return members.empty() ? ComputeMetrics() : ComputeMetrics(combine(std::move(members)));
}

at::Tensor loss_of(const ModelOutput& outputs, const at::Tensor& labels, const at::Tensor& items) {
  const at::Tensor logits = outputs.logits.reshape({-1, outputs.logits.size(-1)});
  const at::Tensor sum = at::cross_entropy_loss(logits, labels.reshape(-1), {}, at::Reduction::Sum);
  return items.defined() ? sum / items : sum / labels.ne(-100).sum();
}

// --- callbacks -----------------------------------------------------------------------------------

/// Notes every event with its step.
class Recorder final : public TrainerCallback {
 public:
  [[nodiscard]] std::string name() const override { return "Recorder"; }
  void on_init_end(TrainerEvent& event) override { note("on_init_end", event); }
  void on_train_begin(TrainerEvent& event) override { note("on_train_begin", event); }
  void on_train_end(TrainerEvent& event) override { note("on_train_end", event); }
  void on_epoch_begin(TrainerEvent& event) override { note("on_epoch_begin", event); }
  void on_epoch_end(TrainerEvent& event) override { note("on_epoch_end", event); }
  void on_step_begin(TrainerEvent& event) override { note("on_step_begin", event); }
  void on_pre_optimizer_step(TrainerEvent& event) override { note("on_pre_optimizer_step", event); }
  void on_optimizer_step(TrainerEvent& event) override { note("on_optimizer_step", event); }
  void on_substep_end(TrainerEvent& event) override { note("on_substep_end", event); }
  void on_step_end(TrainerEvent& event) override { note("on_step_end", event); }
  void on_evaluate(TrainerEvent& event, const LogValues&) override { note("on_evaluate", event); }
  void on_predict(TrainerEvent& event, const LogValues&) override { note("on_predict", event); }
  void on_save(TrainerEvent& event, const std::filesystem::path&) override {
    note("on_save", event);
  }
  void on_log(TrainerEvent& event, const LogValues&) override { note("on_log", event); }
  void on_prediction_step(TrainerEvent& event, std::optional<std::size_t>) override {
    note("on_prediction_step", event);
  }
  [[nodiscard]] const Json& events() const { return events_; }

 private:
  void note(const char* what, const TrainerEvent& event) {
    events_.push_back({what, event.state.global_step});
  }

  Json events_ = Json::array();
};

/// Asks for something after a step.
class Asking final : public TrainerCallback {
 public:
  explicit Asking(Json asks) : asks_(std::move(asks)) {}
  [[nodiscard]] std::string name() const override { return "Asking"; }
  void on_step_end(TrainerEvent& event) override {
    for (const Json& ask : asks_)
      if (ask.at("step") == event.state.global_step) raise(event.control, ask.at("flag"));
  }

 private:
  static void raise(TrainerControl& control, const std::string& flag) {
    const std::pair<const char*, bool*> flags[] = {
        {"should_training_stop", &control.should_training_stop},
        {"should_epoch_stop", &control.should_epoch_stop},
        {"should_save", &control.should_save},
        {"should_evaluate", &control.should_evaluate},
        {"should_log", &control.should_log}};
    for (const auto& [name, place] : flags)
      if (flag == name) *place = true;
  }

  Json asks_;
};

std::vector<std::shared_ptr<TrainerCallback>> callbacks_of(
    const Json& spec, const std::shared_ptr<Recorder>& recorder) {
  std::vector<std::shared_ptr<TrainerCallback>> callbacks;
  const Json given = spec.value("callbacks", Json::object());
  if (given.contains("early_stopping")) {
    const Json& options = given["early_stopping"];
    callbacks.push_back(std::make_shared<EarlyStoppingCallback>(
        EarlyStoppingOptions{.early_stopping_patience = options.value("patience", 1),
                             .early_stopping_threshold = options.value("threshold", 0.0)}));
  }
  if (given.contains("asks")) callbacks.push_back(std::make_shared<Asking>(given["asks"]));
  callbacks.push_back(recorder);
  return callbacks;
}

// --- answers -------------------------------------------------------------------------------------

// "nan", "inf" and "-inf" are no numbers of JSON.
Json json_of(double value) {
  return std::isfinite(value) ? Json(value) : Json(std::to_string(value));
}

Json json_of(const LogValues& values) {
  Json answer = Json::object();
  for (const auto& [name, value] : values) answer[name] = json_of(value);
  return answer;
}

Json json_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  const double* first = flat.const_data_ptr<double>();
  return {{"shape", tensor.sizes().vec()},
          {"values", std::vector<double>(first, first + flat.numel())}};
}

Json json_of(const std::vector<at::Tensor>& tensors) {
  Json answer = Json::array();
  for (const auto& tensor : tensors) answer.push_back(json_of(tensor));
  return answer;
}

ResumeOption resume_of(const Json& spec) {
  const Json given = spec.value("resume", Json());
  if (given.is_boolean()) return given.get<bool>();
  return given.is_string() ? ResumeOption(given.get<std::string>()) : ResumeOption();
}

void train(Trainer& trainer, const Json& spec, Json& answer) {
  const TrainOutput output = trainer.train(resume_of(spec));
  answer["global_step"] = output.global_step;
  answer["training_loss"] = json_of(output.training_loss);
  answer["metrics"] = json_of(output.metrics);
  trainer.save_metrics("train", output.metrics);
  trainer.save_state();
}

void evaluate(Trainer& trainer, Json& answer) {
  const LogValues metrics = trainer.evaluate();
  trainer.save_metrics("eval", metrics);
  answer["evaluation"] = json_of(metrics);
}

Json predictions(Trainer& trainer, const std::string& file) {
  const PredictionOutput output = trainer.predict(rows_of(file));
  return {{"outputs", json_of(output.outputs)},
          {"labels", json_of(output.label_ids)},
          {"metrics", json_of(output.metrics)}};
}

TrainerOptions options_of(const Json& spec, const std::shared_ptr<Recorder>& recorder) {
  std::optional<PreTrainedTokenizer> tokenizer;
  if (spec.contains("tokenizer"))
    tokenizer = AutoTokenizer::from_pretrained(spec["tokenizer"].get<std::string>());
  return {.model = model_of(spec),
          .args = training_arguments_of(read_json(spec.at("arguments").dump(), "arguments"),
                                        "arguments"),
          .train_dataset = train_data(spec),
          .eval_dataset = eval_data(spec.at("data")),
          .processing_class = tokenizer,
          .data_collator = collator_of(spec, tokenizer),
          .compute_metrics = metrics_of(spec),
          .compute_loss_func = spec.value("compute_loss", false) ? ComputeLoss(loss_of) : nullptr,
          .callbacks = callbacks_of(spec, recorder)};
}

void run(const Json& spec) {
  const auto recorder = std::make_shared<Recorder>();
  Trainer trainer(options_of(spec, recorder));
  Json answer = Json::object();
  if (spec.value("train", true)) train(trainer, spec, answer);
  if (spec.value("evaluate", false)) evaluate(trainer, answer);
  if (spec.contains("predict")) answer["predictions"] = predictions(trainer, spec["predict"]);
  trainer.save_model();
  answer["events"] = recorder->events();
  const bool is_main = trainer.is_world_process_zero();
  trainer.end();
  if (is_main) std::cout << "\n" << answer.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: trainer_probe SPEC.json");
  run(read(argv[1]));
  return 0;
} catch (const accelerate::Error& error) {
  std::cout << "\n" << Json{{"error", accelerate::describe(error)}}.dump() << std::endl;
  return 1;
} catch (const std::exception& error) {
  std::cerr << "trainer_probe: " << error.what() << "\n";
  return 1;
}
