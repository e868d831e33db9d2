#include "accelerate/watch/run_log/run_history.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace accelerate {
namespace {

constexpr std::size_t kMostLogs = std::size_t{1} << 20;
constexpr std::size_t kMostOthers = 20'000;

template <typename Event>
void erase_after(std::vector<Event>& events, std::int64_t step) {
  std::erase_if(events, [step](const Event& event) { return event.step > step; });
}

template <typename Event>
void keep_newer_half(std::vector<Event>& events) {
  if (events.size() < kMostOthers) return;
  events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(kMostOthers / 2));
}

// Drops every second log; the newest stays.
void keep_every_second(std::vector<RunLogged>& logs) {
  if (logs.size() < kMostLogs) return;
  for (std::size_t i = 0; 2 * i + 1 < logs.size(); ++i) logs[i] = std::move(logs[2 * i + 1]);
  logs.resize(logs.size() / 2);
}

bool have_common_names(const RunMetrics& a, const RunMetrics& b) {
  return std::ranges::any_of(a, [&](const auto& metric) {
    return std::ranges::find(b, metric.first, &RunMetrics::value_type::first) != b.end();
  });
}

}  // namespace

bool RunHistory::empty() const {
  return !begin && !end && logs.empty() && evaluations.empty() && saves.empty() && notes.empty();
}

void RunHistory::add(RunEvent event) {
  std::visit(
      [this](auto& held) {
        const auto time = held.time;
        const auto at = held.step;
        apply(std::move(held));
        if (segments.empty()) segments.push_back({.first_step = at, .begin = time});
        if (time) segments.back().last = time;
        step = std::max(step, at);
      },
      event);
}

void RunHistory::forget_after(std::int64_t last) {
  erase_after(logs, last);
  erase_after(evaluations, last);
  erase_after(saves, last);
  erase_after(notes, last);
}

void RunHistory::apply(RunBegin event) {
  if (event.step <= 0) {
    const std::size_t ignored = ignored_lines;
    *this = RunHistory{};
    ignored_lines = ignored;
  }
  forget_after(event.step);
  end.reset();
  epoch.reset();
  step = event.step;
  segments.push_back({.first_step = event.step, .begin = event.time});
  begin = std::move(event);
}

void RunHistory::apply(RunLogged event) {
  keep_every_second(logs);
  if (end && event.step > end->step)
    end.reset();  // A state file holds several trainings without a begin event.
  if (event.epoch) epoch = event.epoch;
  logs.push_back(std::move(event));
}

void RunHistory::apply(RunEvaluated event) {
  keep_newer_half(evaluations);
  if (event.epoch) epoch = event.epoch;
  const bool joins = !evaluations.empty() && evaluations.back().step == event.step &&
                     !have_common_names(evaluations.back().metrics, event.metrics);
  if (!joins) return evaluations.push_back(std::move(event));
  auto& metrics = evaluations.back().metrics;
  metrics.insert(metrics.end(), event.metrics.begin(), event.metrics.end());
}

void RunHistory::apply(RunSaved event) {
  keep_newer_half(saves);
  saves.push_back(std::move(event));
}

void RunHistory::apply(RunNote event) {
  keep_newer_half(notes);
  notes.push_back(std::move(event));
}

void RunHistory::apply(RunEnd event) {
  end = std::move(event);
}

}  // namespace accelerate
