#include "accelerate/transformers/tokenizers/regex/regex.h"

#include "accelerate/transformers/tokenizers/regex/general_matcher.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

class ScanningMatcher : public Matcher {
 public:
  explicit ScanningMatcher(const KnownPattern& pattern) : pattern_(pattern) {}

  void find_all(std::string_view text, std::vector<Match>& matches) const override {
    for (std::size_t at = 0; at < text.size();) {
      if (pattern_.likely != nullptr) at = pattern_.likely(text, at);
      if (at == text.size()) break;
      const std::size_t end = pattern_.match(text, at);
      if (end > at) {
        matches.push_back({at, end});
        at = end;
      } else {
        at += width_of(text[at]);
      }
    }
  }

 private:
  const KnownPattern& pattern_;
};

}  // namespace

Regex Regex::compile(const std::string& pattern) {
  if (const KnownPattern* known = known_pattern(pattern))
    return Regex(std::make_shared<ScanningMatcher>(*known));
  return compile_general(pattern);
}

Regex Regex::compile_general(const std::string& pattern) {
  return Regex(std::make_shared<GeneralMatcher>(pattern));
}

}  // namespace accelerate::detail
