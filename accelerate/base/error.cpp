#include "accelerate/base/error.h"

namespace accelerate {
namespace {

// LibTorch's messages carry a stack trace, which tells a user nothing.
std::string sentence_of(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

void append_nested(const std::exception& error, std::string& text) {
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    text += "\n  because: ";
    text += sentence_of(inner);
    append_nested(inner, text);
  } catch (...) {
    text += "\n  because: an exception that is no std::exception";
  }
}

}  // namespace

std::string describe(const std::exception& error) {
  std::string text = sentence_of(error);
  append_nested(error, text);
  return text;
}

}  // namespace accelerate
