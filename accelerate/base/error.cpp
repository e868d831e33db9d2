#include "accelerate/base/error.h"

#include <algorithm>

#include "accelerate/base/untrusted_text.h"

namespace accelerate {
namespace {

constexpr std::string_view kBecause = "\n  because: ";

// LibTorch's messages carry a stack trace, which tells a user nothing. What they quote of files and
// servers must not steer a terminal.
std::string sentence_of(const std::exception& error) {
  const std::string_view text = error.what();
  return detail::untrusted_text(text.substr(0, text.find("\nException raised from ")),
                                std::string_view::npos);
}

// "FolderInUse" becomes "folder-in-use"; "ConfigError" becomes "config", "Error" stays "error".
std::string name_of_type(std::string_view kind) {
  constexpr std::string_view kEnd = "Error";
  if (kind.size() > kEnd.size() && kind.ends_with(kEnd)) kind.remove_suffix(kEnd.size());
  std::string name;
  for (const char letter : kind) {
    const bool upper = letter >= 'A' && letter <= 'Z';
    if (upper && !name.empty()) name += '-';
    name += upper ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return name;
}

}  // namespace

std::string with_name(const std::string& message, ErrorName name) {
  if (name.text().empty()) return message;
  const std::string shown = " [" + std::string(name.text()) + "]";
  const std::size_t end = std::min(message.find(kBecause), message.size());
  std::string own = message.substr(0, end);
  if (const auto at = own.find(shown); at != std::string::npos) own.erase(at, shown.size());
  return own + shown + message.substr(end);
}

Error::Error(const std::string& message, ErrorName name)
    : std::runtime_error(detail::untrusted_text(with_name(message, name), std::string_view::npos)),
      name_(name) {}

std::string Error::name() const {
  if (!name_.text().empty()) return std::string(name_.text());
  return "accelerate.error/" + name_of_type(kind());
}

std::string detail::current_causes() {
  try {
    throw;
  } catch (const std::exception& error) {
    return std::string(kBecause) + describe(error);
  } catch (...) {
    return std::string(kBecause) + "an exception that is not a std::exception";
  }
}

std::string describe(const std::exception& error) {
  const std::string text = sentence_of(error);
  try {
    std::rethrow_if_nested(error);
  } catch (...) {
    const auto causes = detail::current_causes();
    return text.ends_with(causes) ? text : text + causes;
  }
  return text;
}

}  // namespace accelerate
