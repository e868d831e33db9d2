#include "accelerate/formats/documents/python_json.h"

#include <algorithm>
#include <iterator>

namespace accelerate::detail {

std::string with_quoted_infinities(std::string_view text) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string quoted;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto rest = text.substr(at);
    const auto* word =
        std::ranges::find_if(kWords, [&](auto one) { return rest.starts_with(one); });
    if (!in_string && word != std::end(kWords)) {
      quoted.append(1, '"').append(*word).append(1, '"');
      at += word->size() - 1;
      continue;
    }
    if (text[at] == '"') in_string = !in_string;
    quoted += text[at];
    if (in_string && text[at] == '\\' && at + 1 < text.size()) quoted += text[++at];
  }
  return quoted;
}

}  // namespace accelerate::detail
