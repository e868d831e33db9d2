#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "accelerate/watch/page/page_parts.h"
#include "accelerate/watch/run_log/display_text.h"
#include "accelerate/watch/run_log/series.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kMostRows = 500;
constexpr std::size_t kMostColumns = 16;
constexpr std::size_t kMostArguments = 400;
constexpr std::size_t kRowsShown = 30;  // Longer tables are folded.

// A table whose cells are HTML.
class HtmlTable {
 public:
  HtmlTable(std::string title, std::vector<std::string> columns)
      : title_(std::move(title)), columns_(std::move(columns)) {}

  void add_row(const std::vector<std::string>& cells, std::string_view css_class = "") {
    ++rows_;
    body_ += css_class.empty() ? "<tr>" : "<tr class=\"" + std::string(css_class) + "\">";
    for (const auto& cell : cells) body_ += "<td>" + cell + "</td>";
    body_ += "</tr>\n";
  }

  // `all`: the number of rows, shown or not. `css_class`: the class of the table.
  [[nodiscard]] std::string html(std::size_t all, std::string_view css_class = "") const {
    if (rows_ == 0) return "";
    std::string head;
    for (const auto& column : columns_) head += "<th scope=\"col\">" + column + "</th>";
    const std::string count =
        rows_ < all ? "the newest " + std::to_string(rows_) + " of " + std::to_string(all)
                    : std::to_string(all);
    return "<details" + std::string(rows_ <= kRowsShown ? " open=\"open\"" : "") +
           ">\n<summary><h2>" + title_ + "</h2> <small>" + count +
           "</small></summary>\n<div class=\"wide\"><table class=\"" + std::string(css_class) +
           "\"><thead><tr>" + head + "</tr></thead>\n<tbody>\n" + body_ +
           "</tbody></table></div>\n</details>\n";
  }

 private:
  std::string title_;
  std::vector<std::string> columns_;
  std::string body_;
  std::size_t rows_ = 0;
};

template <typename Events>
auto newest(const Events& events) {
  const std::size_t skipped = events.size() - std::min(events.size(), kMostRows);
  return std::pair(events.begin() + static_cast<std::ptrdiff_t>(skipped), events.end());
}

std::string optional_number(const std::optional<double>& value) {
  return value ? html_text(number_text(*value)) : "";
}

// Returns the time since the run's first event.
std::string elapsed_text(const RunHistory& history, const std::optional<double>& time) {
  if (!time || history.segments.empty() || !history.segments.front().begin) return "";
  return duration_text(*time - *history.segments.front().begin);
}

std::string metric_cell(const RunEvaluated& event, const std::string& name) {
  const auto found = std::ranges::find(event.metrics, name, &RunMetrics::value_type::first);
  return found == event.metrics.end() ? "" : html_text(number_text(found->second));
}

// --- arguments

struct Argument {
  std::string name;
  std::string value;
  std::string usual;  // The default; "" when not known.
  bool changed = false;
};

// Whether two nodes are written alike or are equal numbers, such as 1 and 1.0.
bool is_same_value(const Node& a, const Node& b) {
  if (node_text(a) == node_text(b)) return true;
  if (!a.is_scalar() || !b.is_scalar() || a.quoted || b.quoted) return false;
  char* end_a = nullptr;
  char* end_b = nullptr;
  const double x = std::strtod(a.text.c_str(), &end_a), y = std::strtod(b.text.c_str(), &end_b);
  return *end_a == '\0' && *end_b == '\0' && end_a != a.text.c_str() && x == y;
}

std::vector<Argument> arguments_of(const RunBegin& begin) {
  std::vector<Argument> arguments;
  for (const auto& entry : begin.arguments.entries) {
    const Node* usual = begin.argument_defaults.find(entry.key);
    const bool changed = usual && !is_same_value(*usual, entry.value);
    arguments.push_back(
        {entry.key, node_text(entry.value), usual ? node_text(*usual) : "", changed});
  }
  std::ranges::stable_sort(arguments, std::greater<>(), &Argument::changed);
  if (arguments.size() > kMostArguments) arguments.resize(kMostArguments);
  return arguments;
}

std::string joined_nodes(const Node& node) {
  std::string text;
  for (const auto& item : node.items) text += (text.empty() ? "" : ", ") + node_text(item);
  for (const auto& entry : node.entries)
    text += (text.empty() ? "" : ", ") + entry.key + ": " + node_text(entry.value);
  return text;
}

}  // namespace

std::string node_text(const Node& node) {
  if (node.is_null()) return "none";
  if (node.is_scalar()) return node.quoted && node.text.empty() ? "\"\"" : node.text;
  return node.is_map() ? "{" + joined_nodes(node) + "}" : "[" + joined_nodes(node) + "]";
}

const RunSaved* best_save(const RunHistory& history) {
  const auto last = std::find_if(history.saves.rbegin(), history.saves.rend(),
                                 [](const auto& save) { return save.best; });
  return last == history.saves.rend() ? nullptr : &*last;
}

std::string evaluation_table(const RunHistory& history, const RunSummary& summary) {
  const auto names = metric_names(history, kMostColumns);
  std::vector<std::string> columns = {"step", "epoch", "after"};
  for (const auto& name : names) columns.push_back(html_text(name, 80));
  HtmlTable table("Evaluations", columns);
  for (auto [at, end] = newest(history.evaluations); at != end; ++at) {
    std::vector<std::string> cells = {grouped_text(at->step), optional_number(at->epoch),
                                      elapsed_text(history, at->time)};
    for (const auto& name : names) cells.push_back(metric_cell(*at, name));
    const bool best = summary.best && summary.best->step == at->step;
    table.add_row(cells, best ? "chosen" : "");
  }
  return table.html(history.evaluations.size(), "numbers");
}

std::string checkpoint_table(const RunHistory& history) {
  HtmlTable table("Checkpoints", {"folder", "step", "after", "time", ""});
  const RunSaved* chosen = best_save(history);
  for (auto [at, end] = newest(history.saves); at != end; ++at) {
    const bool best = &*at == chosen;
    table.add_row({html_text(at->folder, 300), grouped_text(at->step),
                   elapsed_text(history, at->time), time_text(at->time), best ? "★ best" : ""},
                  best ? "chosen" : "");
  }
  return table.html(history.saves.size(), "fixed");
}

std::string argument_table(const RunHistory& history) {
  if (!history.begin) return "";
  const bool known = history.begin->argument_defaults.is_map();
  HtmlTable table("Arguments", known ? std::vector<std::string>{"name", "value", "default"}
                                     : std::vector<std::string>{"name", "value"});
  for (const auto& argument : arguments_of(*history.begin)) {
    std::vector<std::string> cells = {html_text(argument.name, 200),
                                      html_text(argument.value, 1'000)};
    if (known) cells.push_back(html_text(argument.usual, 1'000));
    table.add_row(cells, argument.changed ? "chosen" : "");
  }
  return table.html(history.begin->arguments.entries.size());
}

std::string note_table(const RunHistory& history) {
  HtmlTable table("Notes", {"step", "after", "level", "text"});
  for (auto [at, end] = newest(history.notes); at != end; ++at) {
    const bool loud = at->level == "warning" || at->level == "error";
    table.add_row({grouped_text(at->step), elapsed_text(history, at->time),
                   html_text(at->level, 40), html_text(at->text, 600)},
                  loud ? at->level : "");
  }
  return table.html(history.notes.size());
}

}  // namespace accelerate::detail
