#include "accelerate/transformers/hub/cache/python_paths.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

namespace accelerate::detail {
namespace {

// Returns the home of `user`; "" stands for the user who runs this program.
std::optional<std::string> home_in_database(const std::string& user) {
  std::array<char, 16384> text{};
  passwd entry{};
  passwd* found = nullptr;
  if (user.empty()) {
    ::getpwuid_r(::getuid(), &entry, text.data(), text.size(), &found);
  } else {
    ::getpwnam_r(user.c_str(), &entry, text.data(), text.size(), &found);
  }
  if (found == nullptr || found->pw_dir == nullptr) return std::nullopt;
  return found->pw_dir;
}

std::optional<std::string> home_of(const std::string& user) {
  // An empty HOME counts: Python takes it for the root folder.
  const char* home = user.empty() ? std::getenv("HOME") : nullptr;
  return home != nullptr ? std::optional<std::string>(home) : home_in_database(user);
}

struct Variable {
  std::string name;
  std::size_t length = 0;  // Length of "$NAME" or "${NAME}"; 0 if there is no variable.
};

// Returns the variable at the beginning of `text`, which starts with "$".
Variable variable_at(std::string_view text) {
  if (text.substr(1).starts_with('{')) {
    const std::size_t close = text.find('}');
    if (close == std::string_view::npos) return {};
    return {std::string(text.substr(2, close - 2)), close + 1};
  }
  const auto end = std::find_if_not(text.begin() + 1, text.end(), is_word_character);
  const auto length = static_cast<std::size_t>(end - text.begin());
  return {std::string(text.substr(1, length - 1)), length};
}

}  // namespace

std::string expand_user(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const std::size_t end = std::min(path.find('/'), path.size());
  auto home = home_of(path.substr(1, end - 1));
  if (!home) return path;
  while (home->ends_with('/')) home->pop_back();
  const std::string whole = *home + path.substr(end);
  return whole.empty() ? "/" : whole;
}

std::string expand_variables(std::string_view path) {
  std::string expanded;
  while (!path.empty()) {
    const Variable variable = path.front() == '$' ? variable_at(path) : Variable{};
    const char* value = variable.length > 0 ? std::getenv(variable.name.c_str()) : nullptr;
    const std::size_t taken = std::max<std::size_t>(variable.length, 1);
    expanded += value != nullptr ? std::string_view(value) : path.substr(0, taken);
    path.remove_prefix(taken);
  }
  return expanded;
}

}  // namespace accelerate::detail
