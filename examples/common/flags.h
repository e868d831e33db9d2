// Flags of the examples: pairs of "--name value".
#pragma once

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace flags {

struct Flag {
  std::string name;  ///< "--epochs"
  std::string what;  ///< Stands for the value in messages: "N".
  std::variant<std::string*, std::int64_t*, double*> field;
};

/// Sets `field` to the number in `text`, which must be 0 or more and nothing else. Throws
/// std::invalid_argument.
template <typename Number>
void parse(const std::string& name, const std::string& text, Number& field) {
  Number number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= 0)) {
    throw std::invalid_argument("'" + name + " " + text + "': a " +
                                (std::is_integral_v<Number> ? "whole " : "") +
                                "number from 0 up is allowed.");
  }
  field = number;
}
inline void parse(const std::string&, const std::string& text, std::string& field) {
  field = text;
}

/// Reads argv into the fields of `flags`. Throws std::invalid_argument that says what is allowed.
inline void parse(int argc, char** argv, const std::vector<Flag>& flags) {
  std::string allowed;
  for (const Flag& flag : flags) allowed += " " + flag.name + " " + flag.what;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    const Flag* known = nullptr;
    for (const Flag& flag : flags)
      if (flag.name == name) known = &flag;
    if (known == nullptr || value.empty()) {
      throw std::invalid_argument("'" + name +
                                  (known != nullptr ? "' needs a value" : "' is not a flag") +
                                  ". Allowed:" + allowed + ".");
    }
    std::visit([&](auto* field) { parse(name, value, *field); }, known->field);
  }
}

}  // namespace flags
