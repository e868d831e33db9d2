#include "accelerate/transformers/trainer/arguments/argument_types.h"

#include <algorithm>

#include "accelerate/base/text.h"

namespace accelerate {
namespace {

// Returns the words of all `texts`, divided by blanks or commas, in lower case; none for "false".
std::vector<std::string> option_words(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  for (std::string text : texts) {
    std::replace(text.begin(), text.end(), ',', ' ');
    for (const auto& part : split(text, ' ')) {
      const std::string word = lower(trim(part));
      if (!word.empty() && std::ranges::find(words, word) == words.end()) words.push_back(word);
    }
  }
  if (words == std::vector<std::string>{"false"}) return {};
  return words;
}

}  // namespace

FsdpOption::FsdpOption(const std::string& words) : words_(option_words({words})) {}

FsdpOption::FsdpOption(const std::vector<std::string>& words) : words_(option_words(words)) {}

bool FsdpOption::has(const std::string& word) const {
  return std::ranges::find(words_, word) != words_.end();
}

ResumeOption::ResumeOption(std::filesystem::path folder) {
  const std::string word = lower(folder.string());
  may_begin_anew_ = word == "last";
  newest_ = may_begin_anew_ || word == "true";
  if (!newest_ && word != "false") folder_ = std::move(folder);
}

}  // namespace accelerate
