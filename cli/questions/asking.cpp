#include "cli/questions/asking.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::cli {

namespace {

const ConfigKey& key_called(const std::string& name) {
  const auto key = std::ranges::find(config_keys(), name, &ConfigKey::name);
  if (key == config_keys().end()) throw UsageError("'" + name + "' is not a key");
  return *key;
}

}  // namespace

std::string help_of(const std::string& name) {
  return key_called(name).doc + " It is the key '" + name + "' of the file.";
}

void Asking::tell_for_python(const std::string& what) {
  respondent_.tell(
      {what + " The file is written all the same, for Python's `accelerate launch`.", true});
}

bool Asking::yes(const std::string& text, bool fallback, const std::string& help) {
  return respondent_.answer({.kind = Question::Kind::yes_no,
                             .text = text,
                             .help = help,
                             .fallback = fallback ? "yes" : "no"}) == "yes";
}

std::string Asking::menu(const std::string& text, std::vector<std::string> choices,
                         const std::string& fallback, const std::string& help) {
  return respondent_.answer({.kind = Question::Kind::menu,
                             .text = text,
                             .help = help,
                             .choices = std::move(choices),
                             .fallback = fallback});
}

std::string Asking::text(const std::string& text, const std::string& fallback,
                         const std::string& help) {
  return respondent_.answer({.text = text, .help = help, .fallback = fallback});
}

std::vector<std::string> Asking::list(const std::string& text, const std::string& help) {
  const std::string answer = respondent_.answer({.text = text, .help = help, .may_be_empty = true});
  return answer.empty() ? std::vector<std::string>() : split(answer, ',');
}

bool Asking::yes_for(const std::string& key, const std::string& text, bool fallback) {
  const bool answer = yes(text, fallback, help_of(key));
  set(key, answer ? "true" : "false");
  return answer;
}

std::string Asking::menu_for(const std::string& key, const std::string& text,
                             std::vector<std::string> choices) {
  if (choices.empty()) choices = key_called(key).choices;
  const std::string first = choices.front();
  const std::string answer = menu(text, std::move(choices), first, help_of(key));
  set(key, answer);
  return answer;
}

std::string Asking::text_for(const std::string& key, const std::string& text,
                             const std::string& fallback,
                             const std::function<void(const std::string&)>& check) {
  const auto check_typed = [&](const std::string& typed) {
    const std::string value = checked_config_text(key, typed, "the answer");
    if (check) check(value);
  };
  const std::string answer = respondent_.answer(
      {.text = text, .help = help_of(key), .fallback = fallback, .check = check_typed});
  set(key, answer);
  return answer;
}

void Asking::optional_text_for(const std::string& key, const std::string& text) {
  const std::string answer =
      respondent_.answer({.text = text, .help = help_of(key), .may_be_empty = true});
  if (!answer.empty()) set(key, answer);
}

std::int64_t Asking::number_for(const std::string& key, const std::string& text,
                                const std::string& fallback,
                                const std::function<void(std::int64_t)>& check) {
  const std::string answer = text_for(key, text, fallback, [&](const std::string& typed) {
    if (check) check(parse_int(typed).value_or(0));
  });
  return parse_int(checked_config_text(key, answer, key)).value_or(0);
}

void Asking::set(const std::string& key, const std::string& text) {
  set_config_key(config_, key, text, "'" + key + "'");
}

}  // namespace accelerate::cli
