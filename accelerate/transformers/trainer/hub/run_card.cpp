#include "accelerate/transformers/trainer/hub/trainer_hub.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <algorithm>

#include "accelerate/base/terminal/table.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/model_card.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate::detail {
namespace {

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), std::trunc(value) == value ? "%.0f" : "%.4g", value);
  return text.data();
}

std::string model_name_of(const ResolvedArguments& args) {
  return args.hub_model_id.empty() ? args.output_name()
                                   : std::filesystem::path(args.hub_model_id).filename().string();
}

// Returns "Accuracy" for "eval_accuracy"; empty for the loss and for what measures the machine.
std::string metric_title(const std::string& name) {
  if (!name.starts_with("eval_")) return "";
  for (const char* end : {"_runtime", "_per_second", "_loss"})
    if (name.ends_with(end)) return "";
  std::string title = name.substr(5);
  if (!title.empty())
    title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return title;
}

const double* find_in_history(const TrainerState& state, std::size_t before, const char* name) {
  for (std::size_t i = before; i-- > 0;)
    if (const double* value = state.log_history[i].find(name)) return value;
  return nullptr;
}

// Returns a table with a row for each evaluation.
std::string evaluations(const TrainerState& state) {
  std::vector<TableColumn> columns{{"Training Loss"}, {"Epoch"}, {"Step"}, {"Validation Loss"}};
  std::vector<std::string> metrics;
  for (const auto& logs : state.log_history) {
    for (const auto& [name, value] : logs) {
      const bool is_new = std::ranges::find(metrics, name) == metrics.end();
      if (is_new && !metric_title(name).empty()) metrics.push_back(name);
    }
  }
  for (const auto& name : metrics) columns.push_back({metric_title(name)});
  accelerate::Table table(columns);
  bool any = false;
  for (std::size_t i = 0; i < state.log_history.size(); ++i) {
    const auto& logs = state.log_history[i];
    const double* loss = logs.find("eval_loss");
    if (loss == nullptr) continue;
    const double* training = find_in_history(state, i, "loss");
    const auto cell = [&](const char* name) {
      const double* value = logs.find(name);
      return value != nullptr ? number(*value) : std::string();
    };
    std::vector<std::string> row{training != nullptr ? number(*training) : "No log", cell("epoch"),
                                 cell("step"), number(*loss)};
    for (const auto& name : metrics) row.push_back(cell(name.c_str()));
    table.add_row(std::move(row));
    any = true;
  }
  return any ? table.markdown() : "";
}

std::string hyperparameters(const TrainerCore& core) {
  const auto& args = core.args;
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += "- " + std::string(name) + ": " + value + "\n";
  };
  line("learning_rate", number(args.learning_rate));
  line("train_batch_size", std::to_string(core.recipe.train_batch_size));
  line("eval_batch_size", std::to_string(args.per_device_eval_batch_size));
  line("seed", std::to_string(args.seed));
  if (core.accelerator.num_processes() > 1)
    line("num_devices", std::to_string(core.accelerator.num_processes()));
  if (core.recipe.accumulation > 1)
    line("gradient_accumulation_steps", std::to_string(core.recipe.accumulation));
  line("optimizer", std::string(args.optim.text()) + " with betas=(" + number(args.adam_beta1) +
                        "," + number(args.adam_beta2) +
                        ") and epsilon=" + number(args.adam_epsilon));
  line("lr_scheduler_type", args.lr_scheduler_type);
  if (args.max_steps > 0) {
    line("training_steps", std::to_string(args.max_steps));
  } else {
    line("num_epochs", number(args.num_train_epochs));
  }
  line("mixed_precision", std::string(to_string(core.accelerator.mixed_precision())));
  return text;
}

std::string text_of(const TrainerCore& core, const std::string& name) {
  std::string text = "\n# " + name + "\n\n";
  text += core.trained.model().name() + ", trained by accelerate.cpp on " +
          std::to_string(core.options.train_dataset.size().value_or(0)) + " examples.\n";
  text += "\n## Training procedure\n\n### Training hyperparameters\n\n" + hyperparameters(core);
  if (const auto table = evaluations(core.record.state); !table.empty())
    text += "\n### Training results\n\n" + table;
  return text;
}

// Adds the names of metrics from the evaluation whose weights the model has.
void add_results(const TrainerCore& core, ModelCard& card) {
  constexpr std::int64_t kNewest = -1;
  const std::int64_t wanted = core.args.load_best_model_at_end
                                  ? core.record.state.best_global_step.value_or(kNewest)
                                  : kNewest;
  for (std::size_t i = core.record.state.log_history.size(); i-- > 0;) {
    const auto& logs = core.record.state.log_history[i];
    const double* step = logs.find("step");
    if (logs.find("eval_loss") == nullptr || step == nullptr) continue;
    if (wanted != kNewest && static_cast<std::int64_t>(*step) != wanted) continue;
    for (const auto& [name, value] : logs) {
      const std::string title = metric_title(name);
      if (!title.empty()) card.metrics.push_back(name.substr(5));
    }
    return;
  }
}

}  // namespace

std::string run_card(const TrainerCore& core) {
  ModelCard card;
  card.library_name = "transformers";
  card.tags = {"generated_from_trainer"};
  card.model_name = model_name_of(core.args);
  if (const auto* model = core.trained.model().pretrained()) {
    const auto base = model->config().get<std::string>("_name_or_path", "");
    if (is_repo_id(base)) card.base_models = {base};
  }
  add_results(core, card);
  card.text = text_of(core, card.model_name);
  return write_model_card(card);
}

}  // namespace accelerate::detail
