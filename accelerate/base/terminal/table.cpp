#include "accelerate/base/terminal/table.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"

namespace accelerate {
namespace {

using Row = std::vector<std::string>;
using Widths = std::vector<std::size_t>;
using CellText = std::function<std::string(const std::string&)>;

struct Rule {
  std::string_view left, line, middle, right;
};

struct Frame {
  Rule top, between, bottom;
  std::string_view wall;
};

constexpr Frame kLines = {{"┌", "─", "┬", "┐"}, {"├", "─", "┼", "┤"}, {"└", "─", "┴", "┘"}, "│"};
constexpr Frame kAscii = {{"+", "-", "+", "+"}, {"+", "-", "+", "+"}, {"+", "-", "+", "+"}, "|"};

std::string replaced(std::string_view text, char from, std::string_view to) {
  std::string out;
  for (const char c : text) c == from ? out.append(to) : out.append(1, c);
  return out;
}

std::string box_cell(const std::string& cell) {
  return replaced(cell, '\n', " ");
}

std::string markdown_cell(const std::string& cell) {
  return replaced(replaced(cell, '|', "\\|"), '\n', "<br>");
}

Row titles(const std::vector<TableColumn>& columns) {
  Row row;
  for (const TableColumn& column : columns) row.push_back(column.title);
  return row;
}

Row converted(const Row& row, const CellText& text_of) {
  Row out;
  for (const std::string& cell : row) out.push_back(text_of(cell));
  return out;
}

Widths widths_of(const std::vector<Row>& rows, std::size_t columns, std::size_t least) {
  Widths widths(columns, least);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  return widths;
}

std::string padded(const std::string& cell, std::size_t width, Align align) {
  const std::string blanks(width - display_width(cell), ' ');
  return align == Align::right ? blanks + cell : cell + blanks;
}

std::string line_of(const Row& row, const Widths& widths, const std::vector<TableColumn>& columns,
                    std::string_view wall) {
  std::string line(wall);
  for (std::size_t i = 0; i < row.size(); ++i) {
    line += " " + padded(row[i], widths[i], columns[i].align) + " ";
    line += wall;
  }
  return line + "\n";
}

std::string rule_of(const Rule& rule, const Widths& widths) {
  std::string line(rule.left);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (i > 0) line += rule.middle;
    for (std::size_t n = 0; n < widths[i] + 2; ++n) line += rule.line;
  }
  return line.append(rule.right) + "\n";
}

// The line below the titles, with a colon where a column is aligned to the right.
std::string markdown_rule(const Widths& widths, const std::vector<TableColumn>& columns) {
  std::string line = "|";
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const bool right = columns[i].align == Align::right;
    line += " " + std::string(widths[i] - (right ? 1 : 0), '-') + (right ? ": |" : " |");
  }
  return line + "\n";
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) {
    throw UsageError("a row of " + std::to_string(cells.size()) +
                     " cells does not fit a table of " + std::to_string(columns_.size()) +
                     " columns");
  }
  rows_.push_back(std::move(cells));
}

std::string Table::box(bool utf8) const {
  const Frame& frame = utf8 ? kLines : kAscii;
  std::vector<Row> rows = {converted(titles(columns_), box_cell)};
  for (const Row& row : rows_) rows.push_back(converted(row, box_cell));
  const Widths widths = widths_of(rows, columns_.size(), 0);
  std::string text = rule_of(frame.top, widths);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += line_of(rows[i], widths, columns_, frame.wall);
    if (i == 0) text += rule_of(frame.between, widths);
  }
  return text + rule_of(frame.bottom, widths);
}

std::string Table::markdown() const {
  std::vector<Row> rows = {converted(titles(columns_), markdown_cell)};
  for (const Row& row : rows_) rows.push_back(converted(row, markdown_cell));
  const Widths widths = widths_of(rows, columns_.size(), 3);  // "---" is the shortest rule.
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += line_of(rows[i], widths, columns_, "|");
    if (i == 0) text += markdown_rule(widths, columns_);
  }
  return text;
}

}  // namespace accelerate
