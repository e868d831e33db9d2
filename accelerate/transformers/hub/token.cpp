#include "accelerate/transformers/hub/token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/cache.h"
#include "accelerate/transformers/hub/cache/python_paths.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::string_view kTokenKey = "hf_token = ";

// `source` says where the text comes from. The token itself is never in a message.
std::optional<std::string> cleaned(std::string text, const std::string& source) {
  std::erase_if(text, [](char c) { return c == '\r' || c == '\n'; });
  const std::string token(trim(text));
  const auto is_allowed = [](char c) { return c > 0x20 && c < 0x7f; };
  if (token.empty()) return std::nullopt;
  if (std::ranges::all_of(token, is_allowed)) return token;
  throw ConfigError("the token of " + source +
                    " holds a space, a control character or a letter that is not ASCII. Copy it "
                    "again from https://huggingface.co/settings/tokens");
}

std::optional<std::string> content_of(const fs::path& file) {
  if (real_file_system().status(file).kind == FileKind::none) return std::nullopt;
  return real_file_system().read(file, kMostBytes);
}

fs::path stored_tokens_file() {
  return token_file().parent_path() / "stored_tokens";
}

// Writes a file that only its owner can read from the first byte on. A reader finds the old or the
// new content, never a part.
void write_secret(const fs::path& path, const std::string& content) {
  const fs::path sibling = path.string() + "." + std::to_string(::getpid()) + ".tmp";
  Descriptor file(
      ::open(sibling.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.valid()) throw FileError("write", sibling, errno);
  const int written = write_fully(file.get(), content);
  const int synced = written == 0 && ::fsync(file.get()) != 0 ? errno : written;
  const int closed = file.close();
  if (const int error = synced != 0 ? synced : closed; error != 0) {
    ::unlink(sibling.c_str());
    throw FileError("write", path, error);
  }
  real_file_system().rename(sibling, path);
}

// Only a folder that is created here is closed to other users: HF_HOME may be shared on purpose.
void make_private_folder(const fs::path& folder) {
  if (folder.empty() || real_file_system().status(folder).kind == FileKind::directory) return;
  if (folder.has_parent_path()) real_file_system().create_directories(folder.parent_path());
  if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    throw FileError("create", folder, errno);
}

// An entry of an INI file: "[name]" and the lines below it.
struct Entry {
  std::string name;
  std::vector<std::string> lines;
};

std::vector<Entry> stored_entries() {
  std::vector<Entry> entries;
  for (const std::string& line : split(content_of(stored_tokens_file()).value_or(""), '\n')) {
    const std::string_view words = trim(line);
    if (words.starts_with('[') && words.ends_with(']')) {
      entries.push_back({std::string(words.substr(1, words.size() - 2)), {}});
    } else if (!words.empty() && !entries.empty()) {
      entries.back().lines.push_back(line);
    }
  }
  return entries;
}

void write_entries(std::vector<Entry> entries) {
  std::ranges::sort(entries, {}, &Entry::name);
  std::string text;
  for (const Entry& entry : entries)
    text += "[" + entry.name + "]\n" + join(entry.lines, "\n") + "\n\n";
  write_secret(stored_tokens_file(), text);
}

// Whether a line is "hf_token = <token>", as Python's configparser reads it.
bool holds_token(const std::string& line, const std::string& token) {
  const auto sign = line.find_first_of("=:");
  return sign != std::string::npos && lower(trim(line.substr(0, sign))) == "hf_token" &&
         trim(line.substr(sign + 1)) == token;
}

void check_name(const std::string& name) {
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == ']'; };
  if (!name.empty() && std::ranges::none_of(name, is_bad) && lower(name) != "default") return;
  throw ConfigError("the name of a token is " + detail::shown(name) +
                    "; allowed is text without ']' and control characters that is not 'default'");
}

}  // namespace

fs::path token_file() {
  if (const char* path = std::getenv("HF_TOKEN_PATH"); path != nullptr)
    return detail::expand_variables(detail::expand_user(path));
  return hugging_face_home() / "token";
}

std::optional<std::string> get_token() {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const auto value = env(name)) return cleaned(*value, name);
  }
  const auto text = content_of(token_file());
  return text ? cleaned(*text, "'" + token_file().string() + "'") : std::nullopt;
}

void save_token(const std::string& token, const std::string& name) {
  check_name(name);
  const auto clean = cleaned(token, "the login");
  if (!clean)
    throw ConfigError("the token is empty. Make one at https://huggingface.co/settings/tokens");
  make_private_folder(token_file().parent_path());
  auto entries = stored_entries();
  std::erase_if(entries, [&](const Entry& entry) { return entry.name == name; });
  entries.push_back({name, {std::string(kTokenKey) + *clean}});
  write_entries(std::move(entries));
  write_secret(token_file(), *clean);
}

bool forget_token() {
  const auto text = content_of(token_file());
  if (!text) return false;
  const std::string token(trim(*text));
  auto entries = stored_entries();
  const auto removed = std::erase_if(entries, [&](const Entry& entry) {
    return std::ranges::any_of(entry.lines,
                               [&](const std::string& line) { return holds_token(line, token); });
  });
  if (removed > 0) write_entries(std::move(entries));
  return real_file_system().remove(token_file());
}

std::string detail::token_to_send(const std::optional<std::string>& token) {
  if (token) return cleaned(*token, "HubOptions::token").value_or("");
  if (is_on(env("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return "";
  return get_token().value_or("");
}

}  // namespace accelerate
