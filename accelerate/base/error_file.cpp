#include "accelerate/base/error_file.h"

#include <cxxabi.h>
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string_view>
#include <typeinfo>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kLongestText = 64 * 1024;

// As Python names types: without where they are from.
std::string type_of(const std::exception& error) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return std::string(ours->kind());
  // Not the type of what std::throw_with_nested made of it.
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), &std::free);
  std::string text = status == 0 ? name.get() : typeid(error).name();
  constexpr std::string_view kNested = "std::_Nested_exception<";
  if (text.starts_with(kNested) && text.ends_with('>'))
    text = text.substr(kNested.size(), text.size() - kNested.size() - 1);
  return text;
}

void append_unit(std::string& text, unsigned unit) {
  char escape[16];
  std::snprintf(escape, sizeof escape, "\\u%04x", unit);
  text += escape;
}

// In quotes, and beyond ASCII escaped, because a reader may believe in another encoding.
std::string quoted(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const char32_t c = take_code_point(text).value_or(U'\ufffd');
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += static_cast<char>(c);
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c >= 0x20 && c < 0x7f) {
      quoted += static_cast<char>(c);
    } else if (c < 0x10000) {
      append_unit(quoted, c);
    } else {
      append_unit(quoted, 0xd800 + ((c - 0x10000) >> 10));
      append_unit(quoted, 0xdc00 + ((c - 0x10000) & 0x3ff));
    }
  }
  return quoted + '"';
}

}  // namespace

std::string error_file_text(const std::exception& error) {
  const std::string type = type_of(error) + ": ";
  std::string_view what = error.what();
  what = what.substr(0, what.find("\nException raised from "));  // LibTorch's stack.
  return R"({"message": {"message": )" +
         quoted(untrusted_text(type + std::string(what), kLongestText)) +
         R"(, "extraInfo": {"py_callstack": )" +
         quoted(untrusted_text(type + describe(error), kLongestText)) + R"(, "timestamp": ")" +
         std::to_string(std::time(nullptr)) + "\"}}}";
}

void write_error_file(const std::exception& error) {
  const std::string path = env("TORCHELASTIC_ERROR_FILE").value_or("");
  if (path.empty()) return;
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666));
  if (file.valid()) (void)write_fully(file.get(), error_file_text(error));
}

}  // namespace accelerate::detail
