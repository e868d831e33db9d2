#include "accelerate/watch/trackers/csv.h"

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
