#include "accelerate/transformers/datasets/repository/glob.h"

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kLongestPattern = 4096;

std::u32string decoded(std::string_view text) {
  std::u32string out;
  while (!text.empty()) out += take_code_point(text).value_or(U'\uFFFD');
  return out;
}

// Returns the place of the ']' that closes the set whose text starts at `begin`; npos if none. A
// ']' that comes first is a member of the set.
std::size_t end_of_set(std::u32string_view part, std::size_t begin) {
  std::size_t from = begin;
  if (from < part.size() && part[from] == U'!') ++from;
  if (from < part.size() && part[from] == U']') ++from;
  return part.find(U']', from);
}

}  // namespace

bool has_magic(std::string_view pattern) {
  return pattern.find_first_of("*?[") != std::string_view::npos;
}

bool Glob::Step::takes(char32_t next) const {
  switch (kind) {
    case Kind::literal:
      return next == character;
    case Kind::any:
      return true;
    case Kind::not_separator:
      return next != U'/';
    case Kind::set:
      break;
  }
  const bool is_member = std::any_of(ranges.begin(), ranges.end(), [&](const auto& range) {
    return range.first <= next && next <= range.second;
  });
  return is_member != is_negated;
}

Glob::Glob(std::string_view pattern) {
  if (pattern.size() > kLongestPattern) {
    throw ConfigError("a pattern of " + std::to_string(pattern.size()) +
                      " bytes was found; at most " + std::to_string(kLongestPattern) +
                      " are allowed");
  }
  const std::u32string text = decoded(pattern);
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = text.find(U'/', begin);
    const bool is_last = end == std::u32string::npos;
    const auto part = std::u32string_view(text).substr(begin, is_last ? end : end - begin);
    if (part != U"**" && part.find(U"**") != std::u32string_view::npos) {
      throw ConfigError("the pattern '" + std::string(pattern) +
                        "' has ** beside other characters; ** must stand alone between slashes");
    }
    add_part(part, is_last);
    if (is_last) break;
    begin = end + 1;
  }
  find_literal();
}

void Glob::add_part(std::u32string_view part, bool is_last) {
  if (part == U"**") {
    if (!is_last) steps_.push_back({.kind = Kind::any, .may_skip = 3});
    steps_.push_back({.kind = Kind::any, .repeats = true});
  } else if (part == U"*") {
    steps_.push_back({.kind = Kind::not_separator});
    steps_.push_back({.kind = Kind::not_separator, .repeats = true});
  } else {
    add_name(part);
  }
  if (!is_last) steps_.push_back({.character = U'/'});
}

void Glob::add_name(std::u32string_view part) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == U'*') {
      steps_.push_back({.kind = Kind::not_separator, .repeats = true});
    } else if (part[i] == U'?') {
      steps_.push_back({.kind = Kind::not_separator});
    } else if (part[i] == U'[' && end_of_set(part, i + 1) != std::u32string_view::npos) {
      i = add_set(part, i + 1);
    } else {
      steps_.push_back({.character = part[i]});
    }
  }
}

// Adds the set whose text starts at `begin`, and returns the place of its ']'. A range such as
// "z-a" is empty.
std::size_t Glob::add_set(std::u32string_view part, std::size_t begin) {
  const std::size_t end = end_of_set(part, begin);
  Step step{.kind = Kind::set, .is_negated = part[begin] == U'!'};
  for (std::size_t i = begin + (step.is_negated ? 1 : 0); i < end; ++i) {
    const bool is_range = i + 2 < end && part[i + 1] == U'-';
    step.ranges.emplace_back(part[i], part[is_range ? i + 2 : i]);
    if (is_range) i += 2;
  }
  steps_.push_back(std::move(step));
  return end;
}

// Finds the longest text that every match must contain. Most paths lack it, and searching for it is
// cheap.
void Glob::find_literal() {
  std::string run;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const bool is_optional = step.may_skip > 0;
    if (is_optional) i += step.may_skip - 1;
    if (is_optional || step.kind != Kind::literal || step.character > 0x7F) {
      run.clear();
      continue;
    }
    run += static_cast<char>(step.character);
    if (run.size() > literal_.size()) literal_ = run;
  }
}

// Adds the steps that can be reached without a character.
void Glob::skip_ahead(std::vector<char>& active) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (active[i] == 0) continue;
    if (steps_[i].repeats) active[i + 1] = 1;
    if (steps_[i].may_skip > 0) active[i + steps_[i].may_skip] = 1;
  }
}

bool Glob::matches(std::string_view path) const {
  if (path.find(literal_) == std::string_view::npos) return false;
  std::vector<char> active(steps_.size() + 1, 0), next(active);
  active[0] = 1;
  skip_ahead(active);
  for (const char32_t character : decoded(path)) {
    std::fill(next.begin(), next.end(), 0);
    bool is_alive = false;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (active[i] == 0 || !steps_[i].takes(character)) continue;
      next[steps_[i].repeats ? i : i + 1] = 1;
      is_alive = true;
    }
    if (!is_alive) return false;
    skip_ahead(next);
    active.swap(next);
  }
  return active.back() != 0;
}

}  // namespace accelerate::detail
