// Tables of text, for a terminal and for Markdown. Widths are display columns, so that "é" and "漢"
// line up.
#pragma once

#include <string>
#include <vector>

namespace accelerate {

enum class Align { left, right };

struct TableColumn {
  std::string title;
  Align align = Align::left;
};

/// Collects rows; the text comes from box() or markdown().
///
///   Table table({{"name"}, {"ms", Align::right}});
///   table.add_row({"all-reduce", "0.19"});
class Table {
 public:
  explicit Table(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  /// Throws UsageError when the number of cells is not that of the columns.
  void add_row(std::vector<std::string> cells);
  /// A line across, between the rows before and after it. Markdown has none and leaves it out.
  void add_rule();

  /// With lines around and between, each row ended by a line end; `utf8` false draws with - | and
  /// +. A line end in a cell becomes a blank.
  [[nodiscard]] std::string box(bool utf8 = true) const;
  /// As GitHub reads it, padded so that it also reads well as text. `|` in a cell is escaped, a
  /// line end becomes <br>.
  [[nodiscard]] std::string markdown() const;

 private:
  using Row = std::vector<std::string>;

  std::vector<TableColumn> columns_;
  std::vector<Row> rows_;  // An empty one is a rule.
};

}  // namespace accelerate
