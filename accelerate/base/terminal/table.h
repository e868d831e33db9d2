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

  /// Throws UsageError when the number of cells differs from the number of columns.
  void add_row(std::vector<std::string> cells);

  /// Returns the table in a frame, each row ended by a line end. Without `utf8` the frame is drawn
  /// with - | and +. A line end in a cell becomes a blank.
  [[nodiscard]] std::string box(bool utf8 = true) const;
  /// Returns the table as GitHub reads it, padded so that it also reads well as text. `|` in a cell
  /// is escaped, a line end becomes <br>.
  [[nodiscard]] std::string markdown() const;

 private:
  using Row = std::vector<std::string>;

  std::vector<TableColumn> columns_;
  std::vector<Row> rows_;
};

}  // namespace accelerate
