#include "accelerate/transformers/trainer/callbacks/progress_callback.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate {
namespace {

std::string short_number(double value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

}  // namespace

std::string log_line(const TrainerState& state, const LogValues& logs) {
  std::array<char, 64> place{};
  std::snprintf(place.data(), place.size(),
                "step %lld, epoch %.2f:", static_cast<long long>(state.global_step), state.epoch);
  std::string line = place.data();
  bool first = true;
  for (const auto& [name, value] : logs) {
    if (name == "epoch" || name == "step" || name == "total_flos") continue;
    line += (first ? " " : ", ") + name + " " + short_number(value);
    first = false;
  }
  return line;
}

void PrinterCallback::on_log(TrainerEvent& event, const LogValues& logs) {
  detail::say(event.accelerator, log_line(event.state, logs));
}

void ProgressCallback::on_train_begin(TrainerEvent& event) {
  training_ = std::make_unique<ProgressBar>(
      ProgressOptions{.description = "train",
                      .total = static_cast<std::uint64_t>(event.state.max_steps),
                      .initial = static_cast<std::uint64_t>(event.state.global_step)});
}

void ProgressCallback::on_step_end(TrainerEvent&) {
  if (training_) training_->update();
}

void ProgressCallback::on_log(TrainerEvent& event, const LogValues& logs) {
  const double* loss = logs.find("loss");
  if (training_ && loss != nullptr) training_->set_postfix({{"loss", *loss}});
  PrinterCallback::on_log(event, logs);
}

void ProgressCallback::on_prediction_step(TrainerEvent&, std::optional<std::size_t> batches) {
  if (!evaluation_)
    evaluation_ = std::make_unique<ProgressBar>(
        ProgressOptions{.description = "evaluate", .total = batches, .leave = false});
  evaluation_->update();
}

void ProgressCallback::on_evaluate(TrainerEvent&, const LogValues&) {
  evaluation_ = nullptr;
}

void ProgressCallback::on_predict(TrainerEvent&, const LogValues&) {
  evaluation_ = nullptr;
}

void ProgressCallback::on_train_end(TrainerEvent&) {
  training_ = nullptr;
}

}  // namespace accelerate
