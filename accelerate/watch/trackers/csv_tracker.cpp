#include "accelerate/watch/trackers/csv_tracker.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "accelerate/base/error.h"
#include "accelerate/watch/trackers/values.h"

namespace accelerate {
namespace {

constexpr std::string_view kCsvFile = "metrics.csv";
constexpr std::string_view kFirstRow = "step,time\n";

void add_histogram(std::vector<std::pair<std::string, std::string>>& cells, const std::string& name,
                   const Histogram& histogram) {
  const auto summary = detail::summarize(histogram.values);
  if (!summary) return;  // Without a finite element, cells stay empty.
  cells.emplace_back(name + "/min", detail::shortest_number(summary->min));
  cells.emplace_back(name + "/mean", detail::shortest_number(summary->sum / summary->num));
  cells.emplace_back(name + "/max", detail::shortest_number(summary->max));
}

std::string time_text() {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3f", detail::seconds_since_epoch());
  return text.data();
}

void refuse_csv_column(const std::string& name) {
  if (name != "step" && name != "time") return;
  throw UsageError("a value is called '" + name +
                   "', which is a column that the tracker 'csv' writes itself; log it under "
                   "another name");
}

}  // namespace

void CsvTracker::start() {
  FileTracker::start();
  reserve(std::string(kCsvFile));
  if (!continue_file()) {
    columns_ = {"step", "time"};
    files().append(folder() / kCsvFile, header());
  }
  files().set_head(folder() / kCsvFile, header());
}

// Returns false if there is nothing to continue.
bool CsvTracker::continue_file() {
  const auto path = folder() / kCsvFile;
  if (disk().status(path).kind == FileKind::none) return false;
  const auto content = disk().map(path);
  const auto bytes = content->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t whole = detail::csv_whole_rows(text);
  columns_ = detail::csv_header(text);
  const bool is_ours = columns_.size() >= 2 && columns_[0] == "step" && columns_[1] == "time";
  // A killed run may have left a part of its first row.
  if (whole == 0 && kFirstRow.starts_with(text)) return false;
  if (whole == 0 || !is_ours) {
    throw ConfigError(
        "'" + path.string() +
        "' is there and does not begin with the columns step and time, so it is not a "
        "file of the tracker 'csv'; move it away, or choose another project name");
  }
  files().resume(path, whole);
  return true;
}

void CsvTracker::store_init_configuration(const ConfigMap& config) {
  write_configuration(config);
}

CsvTracker::Cells CsvTracker::cells_of(const TrackerValues& values) {
  Cells cells;
  for (const auto& [name, value] : values) {
    refuse_csv_column(name);
    const auto& data = value.as_variant();
    if (const auto* real = std::get_if<double>(&data)) {
      cells.emplace_back(name, detail::shortest_number(*real));
    } else if (const auto* whole = std::get_if<std::int64_t>(&data)) {
      cells.emplace_back(name, std::to_string(*whole));
    } else if (const auto* text = std::get_if<std::string>(&data)) {
      cells.emplace_back(name, detail::csv_text(*text));
    } else if (const auto* several = std::get_if<Scalars>(&data)) {
      for (const auto& [part, one] : *several) {
        cells.emplace_back(name + "/" + part, detail::shortest_number(one));
      }
    } else {
      add_histogram(cells, name, std::get<Histogram>(data));
    }
  }
  return cells;
}

std::string CsvTracker::header() const {
  std::string line;
  for (const auto& column : columns_) line += (line.empty() ? "" : ",") + detail::csv_text(column);
  return line + "\n";
}

void CsvTracker::add_columns(const Cells& cells) {
  const std::size_t before = columns_.size();
  for (const auto& [column, cell] : cells) {
    if (std::ranges::find(columns_, column) == columns_.end()) columns_.push_back(column);
  }
  const std::size_t added = columns_.size() - before;
  if (added == 0) return;
  files().set_head(folder() / kCsvFile, header());
  files().rewrite(folder() / kCsvFile, [header = header(), added](const std::string& text) {
    return detail::csv_widen(text, header, added);
  });
}

void CsvTracker::log(const TrackerValues& values, std::optional<std::int64_t> step) {
  const Cells cells = cells_of(values);
  add_columns(cells);
  const std::map<std::string, std::string> by_column(cells.begin(), cells.end());
  std::string row = (step ? std::to_string(*step) : "") + "," + time_text();
  for (std::size_t i = 2; i < columns_.size(); ++i) {
    const auto found = by_column.find(columns_[i]);
    row += "," + (found != by_column.end() ? found->second : "");
  }
  files().append(folder() / kCsvFile, row + "\n");
}

}  // namespace accelerate

namespace accelerate::detail {
namespace {

// Returns the length of the first row with its line end; 0 if there is no line end.
std::size_t row_length(std::string_view text) {
  bool quoted = false;  // A doubled quote inside quotes closes and opens again.
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '\n' && !quoted) return i + 1;
  }
  return 0;
}

// Removes the first cell and the comma behind it from `row`.
std::string take_cell(std::string_view& row) {
  std::string cell;
  bool quoted = false;
  std::size_t i = 0;
  for (; i < row.size() && (quoted || row[i] != ','); ++i) {
    if (row[i] != '"') {
      cell += row[i];
    } else if (quoted && i + 1 < row.size() && row[i + 1] == '"') {
      cell += row[++i];
    } else {
      quoted = !quoted;
    }
  }
  row.remove_prefix(i < row.size() ? i + 1 : i);
  return cell;
}

}  // namespace

std::string csv_text(std::string_view text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string_view::npos) {
    return std::string(text);
  }
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

std::vector<std::string> csv_header(std::string_view text) {
  std::string_view row = text.substr(0, row_length(text));
  while (!row.empty() && (row.back() == '\n' || row.back() == '\r')) row.remove_suffix(1);
  std::vector<std::string> cells;
  while (!row.empty()) {
    const bool more = row.back() == ',';
    cells.push_back(take_cell(row));
    if (row.empty() && more) cells.emplace_back();
  }
  return cells;
}

std::size_t csv_whole_rows(std::string_view text) {
  std::size_t whole = 0;
  while (const std::size_t length = row_length(text.substr(whole))) whole += length;
  return whole;
}

std::string csv_widen(std::string_view text, const std::string& header, std::size_t new_columns) {
  std::string out = header;
  text.remove_prefix(row_length(text));
  while (const std::size_t length = row_length(text)) {
    out += text.substr(0, length - 1);
    out.append(new_columns, ',');
    out += '\n';
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace accelerate::detail
