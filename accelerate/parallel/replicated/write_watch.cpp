#include "accelerate/parallel/replicated/write_watch.h"

#include <utility>

namespace accelerate::detail {

WriteWatch::WriteWatch(std::vector<NamedTensor> parameters) : parameters_(std::move(parameters)) {}

void WriteWatch::watch(std::int64_t window) {
  if (window_ != window) forget();
  window_ = window;
}

void WriteWatch::note() {
  if (!window_ || !noted_.empty()) return;
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.requires_grad() && parameter.grad().defined())
      noted_.emplace_back(name, WriteMark(parameter));
  }
}

void WriteWatch::forget() {
  window_.reset();
  noted_.clear();
}

std::optional<std::string> WriteWatch::changed_in(std::int64_t window) const {
  if (window_ != window) return std::nullopt;
  for (const auto& [name, mark] : noted_) {
    if (mark.is_changed()) return name;
  }
  return std::nullopt;
}

}  // namespace accelerate::detail
