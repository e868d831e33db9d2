#include "accelerate/launch/output/error_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/formats/documents/json.h"

namespace accelerate::detail {
namespace {

constexpr off_t kLongestFile = 1024 * 1024;
constexpr std::size_t kLongestMessage = 1000;

// The file belongs to the rank, which may have put anything in its place.
std::string text_of_file(const std::filesystem::path& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about{};
  if (!file.valid() || fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode)) return {};
  if (about.st_size > kLongestFile) return {};
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  const ssize_t got = read(file.get(), text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// Old versions write the message as text, newer ones as an object that holds it.
const nlohmann::json* message_in(const nlohmann::json& value) {
  if (!value.is_object() || !value.contains("message")) return nullptr;
  const auto& message = value["message"];
  return message.is_object() ? message_in(message) : &message;
}

}  // namespace

std::string read_error_report(const std::filesystem::path& file) {
  const std::string text = text_of_file(file);
  const auto value = parse_json(text);
  const auto* message = message_in(value);
  if (message == nullptr || !message->is_string()) return {};
  std::string shown = message->get<std::string>();
  shown.resize(
      std::min(shown.find("\nException raised from "), shown.size()));  // LibTorch's stack.
  shown = untrusted_text(trim(shown), kLongestMessage);
  for (auto end = shown.find('\n'); end != std::string::npos; end = shown.find('\n', end + 1))
    shown.insert(end + 1, "    ");
  return shown;
}

}  // namespace accelerate::detail
