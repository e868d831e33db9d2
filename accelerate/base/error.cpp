#include "accelerate/base/error.h"

namespace accelerate {
namespace {

void append_nested(const std::exception& error, std::string& text) {
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    text += "\n  because: ";
    text += inner.what();
    append_nested(inner, text);
  } catch (...) {
    text += "\n  because: an exception that is no std::exception";
  }
}

}  // namespace

std::string describe(const std::exception& error) {
  std::string text = error.what();
  append_nested(error, text);
  return text;
}

}  // namespace accelerate
