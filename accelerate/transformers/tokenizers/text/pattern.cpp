#include "accelerate/transformers/tokenizers/text/pattern.h"

#include "accelerate/base/error.h"

namespace accelerate::detail {

Pattern::Pattern(const JsonView& json) {
  if (json.is_string()) {
    text_ = json.text();
  } else if (const auto text = json.find("String")) {
    text_ = text->text();
  } else if (const auto regex = json.find("Regex")) {
    try {
      regex_ = Regex::compile(std::string(regex->text()));
    } catch (const ConfigError& error) {
      regex->refuse("cannot be used: " + std::string(error.what()));
    }
  } else {
    json.refuse("names neither a 'String' nor a 'Regex'");
  }
}

std::vector<Span> Pattern::find_all(std::string_view text) const {
  std::vector<Match> matches;
  find_all(text, matches);
  std::vector<Span> found;
  found.reserve(matches.size());
  for (const auto& [begin, end] : matches)
    found.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  return found;
}

void Pattern::find_all(std::string_view text, std::vector<Match>& matches) const {
  if (regex_) return regex_->find_all(text, matches);
  if (text_.empty()) return;
  for (std::size_t at = text.find(text_); at != std::string_view::npos;
       at = text.find(text_, at + text_.size())) {
    matches.push_back({at, at + text_.size()});
  }
}

}  // namespace accelerate::detail
