#include "accelerate/transformers/trainer/callbacks/run_log_callback.h"

#include <sys/resource.h>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/arguments/parse_args.h"
#include "accelerate/transformers/trainer/callbacks/speed.h"
#include "accelerate/transformers/trainer/model_size.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

// Returns the most memory that this process has held, or, on a GPU, that LibTorch has allocated
// there.
double peak_memory_bytes(c10::Device device) {
  if (!device.is_cpu()) return static_cast<double>(device_memory(device).peak_allocated_bytes);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

double total_of(const StepSeconds& step) {
  const auto parts = step.parts();
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

}  // namespace

template <typename Write>
void RunLogCallback::write(Write write) {
  if (!log_) return;
  try {
    write(*log_);
  } catch (const Error& error) {
    trainer_logger().warning("the run log ends here: " + describe(error));
    log_.reset();
  }
}

void RunLogCallback::begin(const TrainerEvent& event, const TrainingPlan& plan,
                           const std::optional<std::string>& resumed_from) {
  log_.reset();
  if (!event.state.is_world_process_zero) return;
  const std::filesystem::path folder = event.args.output_dir;
  std::filesystem::create_directories(folder);
  log_.emplace(folder / kRunLogFile);
  logged_ = std::chrono::steady_clock::now();
  step_logged_ = event.state.global_step;
  tokens_logged_ = event.state.num_input_tokens_seen;
  total_batch_size_ = plan.total_batch_size;
  const auto size = size_of(event.model);
  const bool is_stream = plan.num_train_epochs == std::numeric_limits<std::int64_t>::max();
  RunBegin begin{.step = event.state.global_step,
                 .max_steps = plan.max_steps,
                 .num_processes = event.accelerator.num_processes(),
                 .model = event.model.name(),
                 .parameters = size.parameters,
                 .trained_parameters = size.trained,
                 .train_examples = plan.num_examples,
                 .total_batch_size = plan.total_batch_size,
                 .arguments = to_node(event.args),
                 .argument_defaults = to_node(TrainingArguments{}),
                 .resumed_from = resumed_from,
                 .strategy = std::string(to_string(event.accelerator.distributed_type())),
                 .precision = std::string(to_string(event.accelerator.mixed_precision())),
                 .device = event.accelerator.device().str()};
  if (!is_stream) {
    begin.num_train_epochs = event.args.max_steps > 0 ? static_cast<double>(plan.num_train_epochs)
                                                      : event.args.num_train_epochs;
    if (!plan.batches_of) begin.steps_per_epoch = plan.updates_per_epoch;
  }
  write([&](RunLogWriter& log) { log.begin(std::move(begin)); });
}

void RunLogCallback::on_log(TrainerEvent& event, const LogValues& logs) {
  const double* loss = logs.find("loss");
  if (!log_ || loss == nullptr) return;  // Evaluations and ends are other events.
  RunLogged logged{.step = event.state.global_step, .epoch = event.state.epoch, .loss = *loss};
  for (const auto& [name, value] : logs) {
    if (name == "grad_norm") {
      logged.grad_norm = value;
    } else if (name == "learning_rate") {
      logged.learning_rate = value;
    } else if (name != "loss" && name != "epoch") {
      logged.others.emplace_back(name, value);
    }
  }
  const auto steps = static_cast<double>(event.state.global_step - step_logged_);
  if (clock_ != nullptr) logged.step_seconds = clock_->take();
  const double seconds = logged.step_seconds ? steps * total_of(*logged.step_seconds)
                                             : seconds_since(logged_);  // Includes evaluations.
  if (seconds > 0) {
    logged.samples_per_second = steps * static_cast<double>(total_batch_size_) / seconds;
    const auto tokens = event.state.num_input_tokens_seen - tokens_logged_;
    if (tokens > 0) logged.tokens_per_second = static_cast<double>(tokens) / seconds;
  }
  logged.memory_bytes = peak_memory_bytes(event.accelerator.device());
  logged_ = std::chrono::steady_clock::now();
  step_logged_ = event.state.global_step;
  tokens_logged_ = event.state.num_input_tokens_seen;
  write([&](RunLogWriter& log) { log.log(std::move(logged)); });
}

void RunLogCallback::on_evaluate(TrainerEvent& event, const LogValues& metrics) {
  RunEvaluated evaluated{.step = event.state.global_step, .epoch = event.state.epoch};
  for (const auto& [name, value] : metrics)
    if (name != "epoch") evaluated.metrics.emplace_back(name, value);
  write([&](RunLogWriter& log) { log.evaluate(std::move(evaluated)); });
}

void RunLogCallback::on_save(TrainerEvent& event, const std::filesystem::path& folder) {
  write([&](RunLogWriter& log) {
    log.save({.step = event.state.global_step,
              .folder = folder.filename().string(),
              .best = event.state.best_global_step == event.state.global_step});
  });
}

void RunLogCallback::note(const TrainerEvent& event, const std::string& text,
                          const std::string& level) {
  write([&](RunLogWriter& log) {
    log.note({.step = event.state.global_step, .text = text, .level = level});
  });
}

void RunLogCallback::end(const TrainerEvent& event, const std::string& reason,
                         const LogValues& metrics) {
  write([&](RunLogWriter& log) {
    log.end({.step = event.state.global_step, .reason = reason, .metrics = metrics.values()});
  });
  log_.reset();
  clock_ = nullptr;
}

}  // namespace accelerate::detail

namespace accelerate {
namespace {

std::string tracked_name(const std::string& name) {
  for (const std::string_view split : {"eval_", "test_"})
    if (name.starts_with(split))
      return std::string(split.substr(0, split.size() - 1)) + "/" + name.substr(split.size());
  return "train/" + name;
}

// Returns the settings to compare runs by, as texts. Lists and maps are left out.
ConfigMap settings_of(const ResolvedArguments& args) {
  ConfigMap settings;
  for (const auto& [name, line, node] : to_node(args).entries)
    if (node.is_scalar()) settings.emplace_back(name, node.text);
  return settings;
}

}  // namespace

void TrackingCallback::on_log(TrainerEvent& event, const LogValues& logs) {
  if (!started_) {
    const auto& args = event.args;
    // A run without a name is called after its folder.
    const bool has_name = args.run_name != args.output_dir;
    event.accelerator.init_trackers(has_name ? args.run_name : args.output_name(),
                                    settings_of(args));
    started_ = true;
  }
  TrackerValues values;
  for (const auto& [name, value] : logs) values.emplace_back(tracked_name(name), value);
  event.accelerator.log(values, event.state.global_step);
}

}  // namespace accelerate
