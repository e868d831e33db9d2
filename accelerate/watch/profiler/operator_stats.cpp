#include "accelerate/watch/profiler/operator_stats.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <utility>

#include "accelerate/base/terminal/table.h"
#include "accelerate/watch/profiler/memory_meter.h"

namespace accelerate {
namespace {

using std::chrono::nanoseconds;

std::string number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string time_text(nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  if (ns >= 1e9) return number("%.3f s", ns / 1e9);
  if (ns >= 1e6) return number("%.3f ms", ns / 1e6);
  return number("%.3f us", ns / 1e3);
}

std::int64_t sort_key(const OperatorStats& one, SortBy by) {
  switch (by) {
    case SortBy::self_cpu:
      return one.self_cpu.count();
    case SortBy::total_cpu:
      return one.total_cpu.count();
    case SortBy::device:
      return one.device.count();
    case SortBy::calls:
      return one.calls;
    case SortBy::self_bytes:
      return one.self_bytes;
  }
  return 0;
}

struct Column {
  std::string title;
  Align align;
  std::function<std::string(const OperatorStats&)> text;
};

std::vector<Column> columns_for(const std::vector<OperatorStats>& operators, nanoseconds all_self) {
  const auto any = [&](auto holds) { return std::ranges::any_of(operators, holds); };
  const auto share = [all_self](nanoseconds time) {
    const auto whole = static_cast<double>(std::max<std::int64_t>(all_self.count(), 1));
    return number("%.2f%%", 100.0 * static_cast<double>(time.count()) / whole);
  };
  using Stats = OperatorStats;
  std::vector<Column> columns = {
      {"Name", Align::left, [](const Stats& one) { return one.name; }},
      {"Self CPU %", Align::right, [=](const Stats& one) { return share(one.self_cpu); }},
      {"Self CPU", Align::right, [](const Stats& one) { return time_text(one.self_cpu); }},
      {"CPU total", Align::right, [](const Stats& one) { return time_text(one.total_cpu); }},
      {"CPU time avg", Align::right,
       [](const Stats& one) { return time_text(one.total_cpu / one.calls); }}};
  if (any([](const Stats& one) { return one.device.count() > 0; }))
    columns.push_back(
        {"Device", Align::right, [](const Stats& one) { return time_text(one.device); }});
  if (any([](const Stats& one) { return one.total_bytes != 0 || one.self_bytes != 0; })) {
    columns.push_back(
        {"Mem", Align::right, [](const Stats& one) { return convert_bytes(one.total_bytes); }});
    columns.push_back(
        {"Self Mem", Align::right, [](const Stats& one) { return convert_bytes(one.self_bytes); }});
  }
  columns.push_back(
      {"# of Calls", Align::right, [](const Stats& one) { return std::to_string(one.calls); }});
  if (any([](const Stats& one) { return !one.shapes.empty(); }))
    columns.push_back({"Input Shapes", Align::left, [](const Stats& one) { return one.shapes; }});
  if (any([](const Stats& one) { return one.flops > 0; }))
    columns.push_back(
        {"FLOPs", Align::right, [](const Stats& one) { return std::to_string(one.flops); }});
  return columns;
}

}  // namespace

std::string to_table(std::vector<OperatorStats> operators, const TableOptions& options) {
  nanoseconds all_self{0};
  for (const auto& one : operators) all_self += one.self_cpu;
  std::ranges::stable_sort(operators, std::ranges::greater(), [&](const OperatorStats& one) {
    return sort_key(one, options.sort_by);
  });
  if (options.row_limit > 0 && operators.size() > options.row_limit)
    operators.resize(options.row_limit);
  const auto columns = columns_for(operators, all_self);
  std::vector<TableColumn> titles;
  for (const auto& column : columns) titles.push_back({column.title, column.align});
  Table table(titles);
  for (const auto& one : operators) {
    std::vector<std::string> cells;
    for (const auto& column : columns) cells.push_back(column.text(one));
    table.add_row(std::move(cells));
  }
  return table.box() + "Self CPU time total: " + time_text(all_self) + "\n";
}

namespace detail {
namespace {

// Sorts outer events before inner events that begin at the same time, and memory changes after
// both.
bool comes_before(const TraceEvent& a, const TraceEvent& b) {
  if (a.thread != b.thread) return a.thread < b.thread;
  if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
  return a.end_ns > b.end_ns;
}

struct Open {
  OperatorStats* stats;
  const TraceEvent* event;
};

}  // namespace

std::vector<OperatorStats> average_by_key(std::vector<TraceEvent> events,
                                          bool group_by_input_shape) {
  std::ranges::stable_sort(events, comes_before);
  std::map<std::pair<std::string, std::string>, OperatorStats> groups;
  std::vector<OperatorStats*> order;
  std::vector<Open> open;
  for (const TraceEvent& event : events) {
    const auto ended = [&event](const Open& outer) {
      return outer.event->thread != event.thread || outer.event->end_ns <= event.start_ns;
    };
    while (!open.empty() && ended(open.back())) open.pop_back();
    if (event.name.empty()) {
      if (!open.empty()) open.back().stats->self_bytes += event.bytes;
      for (const Open& outer : open) outer.stats->total_bytes += event.bytes;
      continue;
    }
    const std::string shapes = group_by_input_shape ? event.shapes : std::string();
    auto& stats = groups[{event.name, shapes}];
    if (stats.calls++ == 0) {
      stats.name = event.name;
      stats.shapes = shapes;
      order.push_back(&stats);
    }
    const nanoseconds time(event.end_ns - event.start_ns);
    stats.total_cpu += time;
    stats.self_cpu += time;
    stats.device += nanoseconds(event.device_ns);
    stats.flops += event.flops;
    if (!open.empty()) open.back().stats->self_cpu -= time;
    open.push_back({&stats, &event});
  }
  std::vector<OperatorStats> result;
  for (const auto* stats : order) result.push_back(*stats);
  return result;
}

}  // namespace detail
}  // namespace accelerate
