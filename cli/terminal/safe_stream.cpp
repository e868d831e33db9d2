#include "cli/terminal/safe_stream.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <streambuf>
#include <string>
#include <string_view>

#include "accelerate/base/untrusted_text.h"

namespace accelerate::cli {
namespace {

// Returns how many bytes at the end of `text` begin a character of UTF-8 whose rest is missing.
std::size_t unfinished_bytes(std::string_view text) {
  constexpr std::size_t kMost = 3;
  for (std::size_t count = 1; count <= std::min(kMost, text.size()); ++count) {
    const auto byte = static_cast<unsigned char>(text[text.size() - count]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return count < length ? count : 0;
  }
  return 0;
}

}  // namespace

class SafeStream::Filter final : public std::streambuf {
 public:
  explicit Filter(std::streambuf* target) : target_(target) {}
  ~Filter() override { (void)pass(waiting_.size()); }

 protected:
  int_type overflow(int_type c) override {
    const char one = traits_type::to_char_type(c);
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    return xsputn(&one, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* data, std::streamsize size) override {
    waiting_.append(data, static_cast<std::size_t>(size));
    return pass(waiting_.size() - unfinished_bytes(waiting_)) ? size : 0;
  }
  int sync() override { return target_->pubsync(); }

 private:
  bool pass(std::size_t count) {
    const std::string safe =
        detail::untrusted_text(std::string_view(waiting_).substr(0, count), std::string_view::npos);
    waiting_.erase(0, count);
    const auto size = static_cast<std::streamsize>(safe.size());
    return target_->sputn(safe.data(), size) == size;
  }

  std::streambuf* target_;
  std::string waiting_;  // The beginning of a character.
};

SafeStream::SafeStream(std::ostream& stream)
    : stream_(stream),
      filter_(std::make_unique<Filter>(stream.rdbuf())),
      target_(stream.rdbuf(filter_.get())) {}

SafeStream::~SafeStream() {
  stream_.rdbuf(target_);
}

void secure_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1) continue;
    // The lowest free descriptor is fd, because the lower ones are open by now.
    if (open("/dev/null", O_RDWR) < 0) return;
  }
}

}  // namespace accelerate::cli
