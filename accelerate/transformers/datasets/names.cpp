#include "accelerate/transformers/datasets/names.h"

#include "accelerate/base/text.h"

namespace accelerate::detail {

std::string no_such(std::string_view kind, std::string_view name,
                    const std::vector<std::string>& names) {
  return "there is no " + std::string(kind) + " '" + std::string(name) +
         "'; there are: " + (names.empty() ? "none" : join(names, ", ")) + "." +
         (kind == "column" ? delimiter_hint(names) : "") + did_you_mean(name, names);
}

std::string delimiter_hint(const std::vector<std::string>& columns) {
  if (columns.size() != 1) return "";
  const std::size_t place = columns.front().find_first_of(";\t|,");
  if (place == std::string::npos) return "";
  const char found = columns.front()[place];
  return " The only column has '" + (found == '\t' ? "\\t" : std::string(1, found)) +
         "' in its name. If it separates columns of CSV, give it as .csv.delimiter.";
}

}  // namespace accelerate::detail
