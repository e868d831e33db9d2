#include "accelerate/watch/trackers/text_table.h"

#include "accelerate/watch/trackers/summaries.h"

namespace accelerate::detail {
namespace {

std::string scalars_text(const Scalars& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += (text.empty() ? "" : ", ") + name + ": " + shortest_number(value);
  }
  return text;
}

std::string histogram_text(const Histogram& histogram) {
  const auto summary = summarize(histogram.values);
  if (!summary) return "no finite element";
  return "min " + shortest_number(summary->min) + ", mean " +
         shortest_number(summary->sum / summary->num) + ", max " + shortest_number(summary->max);
}

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string value_text(const TrackerValue& value) {
  const auto& data = value.as_variant();
  if (const auto* real = std::get_if<double>(&data)) return shortest_number(*real);
  if (const auto* whole = std::get_if<std::int64_t>(&data)) return std::to_string(*whole);
  if (const auto* text = std::get_if<std::string>(&data)) return *text;
  if (const auto* several = std::get_if<Scalars>(&data)) return scalars_text(*several);
  return histogram_text(std::get<Histogram>(data));
}

std::string markdown(const TrackerTable& table) {
  std::string head = "|", rule = "|", body;
  for (const auto& column : table.columns) {
    head += " " + cell(column) + " |";
    rule += " --- |";
  }
  for (const auto& row : table.rows) {
    body += "\n|";
    for (const auto& value : row) body += " " + cell(value_text(value)) + " |";
  }
  return head + "\n" + rule + body;
}

}  // namespace accelerate::detail
