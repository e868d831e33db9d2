// Opens models and calls them as tests/reference/models_live.py asks for.
//
// usage: model_probe
//
// Reads one JSON object a line and prints {} or {"error": "KIND: …"}:
//   {"open": FOLDER, "task": TASK, "seed", "num_labels", "dtype", "attention", "drops_padding",
//   "ignore_mismatched_sizes", "dropout", "gguf": FILE}
//   {"call": FOLDER, "to": FOLDER, "hidden_states", "attentions", "smoothing", "shift_labels",
//    "trains", "recomputes"}
//   reads the tensors of one folder as inputs, and writes outputs, the loss of smoothed labels and,
//   if there is a loss, gradients ("grad.NAME") into the other
//   {"plan": true}  prints the parallel plan
//   {"make": FOLDER, "task": TASK, "seed"}  a new model of the folder's configuration
//   {"resize": TOKENS, "seed", "mean"}
//   {"save": FOLDER, "max_shard_size"}  by save_pretrained()
//   {"generate": FOLDER, "to": FOLDER, "config": {…}, "seed", "tokenizer": FOLDER}  continues the
//   rows of the first folder, writes "ids" and what was "streamed", and prints the
//   pieces of streamed "text"
//   {"train": FILE, "lr", "to": FOLDER}  a step of AdamW for each batch of the file ("0.input_ids"
//       …), and writes the losses
//   {"state": FOLDER}  writes the parameters
//   {"encode": FOLDER, "texts": […], "to": FOLDER}  the vectors that a SentenceEncoder gives
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <torch/optim/adamw.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/architectures/text_model.h"
#include "accelerate/transformers/models/auto_model.h"
#include "accelerate/transformers/models/label_smoother.h"
#include "accelerate/transformers/models/sentence_encoder.h"
#include "tests/transformers/models/small_models.h"

namespace {

using namespace accelerate;
using Json = nlohmann::json;

constexpr std::uint64_t kOneFile = std::uint64_t{1} << 40;

Task task_of(const Json& question) {
  return testing::task_of(question.at("task").get<std::string>());
}

std::shared_ptr<PreTrainedModel> open_model(const Json& question) {
  FromPretrainedOptions options;
  options.gguf_file = question.value("gguf", "");
  options.dtype = question.value("dtype", "auto");
  options.attn_implementation = question.value("attention", "sdpa");
  options.ignore_mismatched_sizes = question.value("ignore_mismatched_sizes", false);
  if (question.contains("num_labels")) options.num_labels = question["num_labels"].get<int>();
  if (question.contains("dropout")) {
    options.config = PretrainedConfig::from_pretrained(question.at("open").get<std::string>());
    for (const char* key : {"hidden_dropout_prob", "attention_probs_dropout_prob"})
      options.config->set(key, question["dropout"].get<double>());
  }
  at::manual_seed(question.value("seed", 0));
  const auto model = accelerate::detail::model_from_pretrained(
      task_of(question), question.at("open").get<std::string>(), options);
  model->set_drops_padding(question.value("drops_padding", true));
  return model;
}

void add(std::vector<NamedTensor>& into, const std::string& name, const at::Tensor& tensor) {
  if (tensor.defined()) into.push_back({name, tensor.detach().clone().contiguous()});
}

void call(PreTrainedModel& model, const Json& question) {
  const auto given = map_weights(question.at("call").get<std::string>());
  Inputs tensors;
  for (const auto& outline : given.outlines)
    tensors.set(outline.name, given.read(outline.name).clone());
  TextInputs inputs = TextInputs::of(tensors, model.input_names());
  inputs.output_hidden_states = question.value("hidden_states", false);
  inputs.output_attentions = question.value("attentions", false);
  model.zero_grad();
  if (question.contains("trains")) model.train(question["trains"].get<bool>());
  if (question.value("recomputes", false)) {
    model.gradient_checkpointing_enable();
  } else {
    model.gradient_checkpointing_disable();
  }
  const ModelOutput output = dynamic_cast<TextModel&>(model).forward(inputs);
  std::vector<NamedTensor> made;
  add(made, "loss", output.loss);
  add(made, "logits", output.logits);
  add(made, "last_hidden_state", output.last_hidden_state);
  add(made, "pooler_output", output.pooler_output);
  add(made, "start_logits", output.start_logits);
  add(made, "end_logits", output.end_logits);
  add(made, "encoder_last_hidden_state", output.encoder_last_hidden_state);
  const std::pair<const char*, const std::vector<at::Tensor>*> lists[] = {
      {"hidden_states.", &output.hidden_states},
      {"attentions.", &output.attentions},
      {"encoder_hidden_states.", &output.encoder_hidden_states},
      {"decoder_hidden_states.", &output.decoder_hidden_states},
      {"encoder_attentions.", &output.encoder_attentions},
      {"decoder_attentions.", &output.decoder_attentions},
      {"cross_attentions.", &output.cross_attentions}};
  for (const auto& [name, list] : lists)
    for (std::size_t i = 0; i < list->size(); ++i) add(made, name + std::to_string(i), (*list)[i]);
  if (question.contains("smoothing")) {
    add(made, "smoothed",
        LabelSmoother{.epsilon = question["smoothing"].get<double>()}(
            output, inputs.labels, question.value("shift_labels", false)));
  }
  if (output.loss.defined()) {
    output.loss.backward();
    std::set<const void*> seen;  // Python names a tied parameter once, by the first of its names.
    for (const auto& item : model.named_parameters())
      if (seen.insert(item.value().unsafeGetTensorImpl()).second)
        add(made, "grad." + item.key(), item.value().grad());
  }
  save_weights(made, question.at("to").get<std::string>(), kOneFile);
}

Json plan_of(const PreTrainedModel& model) {
  const ParallelPlan plan = model.parallel_plan();
  Json said{{"tensor", Json::object()}, {"pipeline", plan.pipeline}};
  for (const auto& rule : plan.tensor_parallel) {
    using enum ParallelPlan::Cut;
    said["tensor"][rule.modules] = rule.cut == colwise               ? "colwise"
                                   : rule.cut == rowwise             ? "rowwise"
                                   : rule.cut == rowwise_split_input ? "rowwise_split_input"
                                                                     : "colwise_gather_output";
  }
  return said;
}

Json generate(PreTrainedModel& model, const Json& question) {
  const auto given = map_weights(question.at("generate").get<std::string>());
  Inputs inputs;
  for (const auto& outline : given.outlines)
    inputs.set(outline.name, given.read(outline.name).clone());
  const auto config = GenerationConfig::of(
      PretrainedConfig::from_json(question.at("config").dump(), "the question"));
  std::vector<at::Tensor> streamed;
  std::vector<std::string> text;
  GenerateOptions options;
  const bool streams = config.num_beams.value_or(1) == 1;
  if (streams)
    options.stream_tokens = [&](const at::Tensor& tokens) { streamed.push_back(tokens); };
  if (question.contains("tokenizer")) {
    options.tokenizer =
        PreTrainedTokenizer::from_pretrained(question["tokenizer"].get<std::string>());
    if (streams && inputs["input_ids"].size(0) == 1 && config.num_return_sequences.value_or(1) == 1)
      options.stream_text = [&](std::string_view piece) { text.emplace_back(piece); };
  }
  at::manual_seed(question.value("seed", 0));
  std::vector<NamedTensor> made;
  add(made, "ids", model.generate(inputs, config, options));
  if (!streamed.empty()) add(made, "streamed", at::stack(streamed, 1));
  save_weights(made, question.at("to").get<std::string>(), kOneFile);
  return Json{{"text", text}};
}

void train(PreTrainedModel& model, const Json& question) {
  const auto given = map_weights(question.at("train").get<std::string>());
  std::map<int, Inputs> batches;
  for (const auto& outline : given.outlines) {
    const auto dot = outline.name.find('.');
    batches[std::stoi(outline.name.substr(0, dot))].set(outline.name.substr(dot + 1),
                                                        given.read(outline.name));
  }
  torch::optim::AdamW optimizer(
      model.parameters(),
      torch::optim::AdamWOptions(question.at("lr").get<double>()).weight_decay(0.01));
  model.train();
  std::vector<double> losses;
  for (const auto& [number, batch] : batches) {
    const ModelOutput output = model.forward(batch);
    output.loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(output.loss.item<double>());
  }
  save_weights({{"losses", at::tensor(losses).to(at::kFloat)}},
               question.at("to").get<std::string>(), kOneFile);
}

Json answer(const Json& question, std::shared_ptr<PreTrainedModel>& model) {
  if (question.contains("generate")) return generate(*model, question);
  if (question.contains("encode")) {
    const auto encoder = SentenceEncoder::from_pretrained(question.at("encode").get<std::string>());
    const auto texts = question.at("texts").get<std::vector<std::string>>();
    save_weights({{"vectors", encoder.encode(texts, question.value("batch_size", 32))}},
                 question.at("to").get<std::string>(), kOneFile);
    return Json::object();
  }
  if (question.contains("plan")) return plan_of(*model);
  if (question.contains("open")) {
    model = open_model(question);
  } else if (question.contains("call")) {
    call(*model, question);
  } else if (question.contains("train")) {
    train(*model, question);
  } else if (question.contains("make")) {
    at::manual_seed(question.value("seed", 0));
    model = accelerate::detail::model_from_config(
        task_of(question),
        PretrainedConfig::from_pretrained(question.at("make").get<std::string>()));
  } else if (question.contains("resize")) {
    at::manual_seed(question.value("seed", 0));
    model->resize_token_embeddings(question.at("resize").get<std::int64_t>(),
                                   {.mean_resizing = question.value("mean", true)});
  } else if (question.contains("save")) {
    model->save_pretrained(question.at("save").get<std::string>(),
                           {.max_shard_size = question.value("max_shard_size", "50GB")});
  } else {
    std::vector<NamedTensor> parameters;
    for (const auto& item : model->named_parameters()) add(parameters, item.key(), item.value());
    save_weights(parameters, question.at("state").get<std::string>(), kOneFile);
  }
  return Json::object();
}

}  // namespace

int main() {
  std::shared_ptr<PreTrainedModel> model;
  for (std::string line; std::getline(std::cin, line);) {
    Json said = Json::object();
    try {
      said = answer(Json::parse(line), model);
    } catch (const ConfigError& error) {
      said["error"] = std::string("ConfigError: ") + error.what();
    } catch (const CheckpointError& error) {
      said["error"] = std::string("CheckpointError: ") + error.what();
    } catch (const UsageError& error) {
      said["error"] = std::string("UsageError: ") + error.what();
    }
    std::cout << said.dump() << std::endl;
  }
  return 0;
}
