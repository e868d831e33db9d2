#include "accelerate/base/error.h"

#include "accelerate/base/untrusted_text.h"

namespace accelerate {
namespace {

// LibTorch's messages carry a stack trace, which tells a user nothing. What they quote of files and
// servers must not steer a terminal.
std::string sentence_of(const std::exception& error) {
  const std::string_view text = error.what();
  return detail::untrusted_text(text.substr(0, text.find("\nException raised from ")),
                                std::string_view::npos);
}

}  // namespace

Error::Error(const std::string& message)
    : std::runtime_error(detail::untrusted_text(message, std::string_view::npos)) {}

std::string detail::current_causes() {
  constexpr std::string_view kBecause = "\n  because: ";
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
