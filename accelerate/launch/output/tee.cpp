#include "accelerate/launch/output/tee.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kLongestLine = 256 * 1024;
// What a pipe takes as one piece, so that lines of standard output and error do not mix.
constexpr std::size_t kBatch = 4096;
// How often to look where the kernel does not tell that a file grew. Milliseconds.
constexpr int kLookAgain = 100;

constexpr int kConnection = 0;
constexpr int kTerminal = 1;

// Runs in the new process. All memory is allocated before the fork.
class Follower {
 public:
  explicit Follower(const std::vector<FollowedFile>& files) {
    std::size_t longest_prefix = 0;
    for (const auto& file : files) {
      files_.push_back({.path = file.path, .prefix = file.prefix});
      longest_prefix = std::max(longest_prefix, file.prefix.size());
    }
    buffer_.resize(kLongestLine);
    batch_.reserve(kBatch + longest_prefix + kLongestLine + 1);
  }

  [[noreturn]] void run() {
    const int news = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    bool is_told = news >= 0;
    for (auto& file : files_) {
      file.fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
      is_told = is_told && inotify_add_watch(news, file.path.c_str(), IN_MODIFY) >= 0;
    }
    for (;;) {
      show_what_is_new(false);
      std::array<pollfd, 2> polls = {{{kConnection, POLLIN, 0}, {news, POLLIN, 0}}};
      poll(polls.data(), polls.size(), is_told ? -1 : kLookAgain);
      if (polls[0].revents != 0) break;
      // Only that there is news counts.
      while (read(news, buffer_.data(), buffer_.size()) > 0) {
      }
    }
    show_what_is_new(true);
    _exit(0);
  }

 private:
  struct File {
    std::string path;
    std::string prefix;
    int fd = -1;
    off_t position = 0;         // Of the first line that has not been shown.
    bool after_return = false;  // The last line ended with a carriage return.
  };

  // In rounds, so that a rank that writes much keeps back no other.
  void show_what_is_new(bool is_all) {
    bool is_more = true;
    while (is_more) {
      is_more = false;
      for (auto& file : files_) is_more = show_part(file, is_all) || is_more;
    }
    flush();
  }

  // Returns whether something was new. A line without an end is left in the file for the next look.
  bool show_part(File& file, bool is_all) {
    const ssize_t got = pread(file.fd, buffer_.data(), buffer_.size(), file.position);
    if (got <= 0) return was_emptied(file);
    const std::string_view text(buffer_.data(), static_cast<std::size_t>(got));
    std::size_t shown = show_lines(file, text);
    if (shown == 0 && (is_all || text.size() == buffer_.size())) {
      add_line(file.prefix, text);
      shown = text.size();
    }
    file.position += static_cast<off_t>(shown);
    return shown > 0;
  }

  static bool was_emptied(File& file) {
    struct stat now{};
    if (fstat(file.fd, &now) != 0 || now.st_size >= file.position) return false;
    file.position = 0;
    return true;
  }

  std::size_t show_lines(File& file, std::string_view text) {
    std::size_t shown = 0;
    for (;;) {
      if (file.after_return && shown < text.size()) {
        if (text[shown] == '\n') ++shown;
        file.after_return = false;
      }
      const auto end = text.find_first_of("\n\r", shown);
      if (end == std::string_view::npos) return shown;
      add_line(file.prefix, text.substr(shown, end - shown));
      file.after_return = text[end] == '\r';
      shown = end + 1;
    }
  }

  void add_line(const std::string& prefix, std::string_view line) {
    if (batch_.size() + prefix.size() + line.size() + 1 > kBatch) flush();
    batch_.append(prefix).append(line).push_back('\n');
  }

  // Whoever cannot be written to has gone, as the reader of a pipeline may. The files have it all.
  void flush() {
    if (!batch_.empty() && write_fully(kTerminal, batch_) != 0) _exit(0);
    batch_.clear();
  }

  std::vector<File> files_;
  std::string buffer_;
  std::string batch_;
};

// Keeps only the connection and the terminal, as descriptors 0 and 1.
void keep_only(int connection, int to) {
  connection = fcntl(connection, F_DUPFD, 3);
  to = fcntl(to, F_DUPFD, 3);
  if (connection < 0 || to < 0) _exit(0);
  dup2(connection, kConnection);
  dup2(to, kTerminal);
  close_range(2, ~0U, 0);
}

// In a session of its own, so that Ctrl-C and Ctrl-Z stop the ranks and not what shows their last
// words.
[[noreturn]] void follow(Follower& follower, int connection, int to) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_NAME, "accelerate-tee");
  keep_only(connection, to);
  follower.run();
}

}  // namespace

Tee::Tee(int to, const std::vector<FollowedFile>& files) {
  const auto follower = std::make_unique<Follower>(files);
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw LaunchError(std::string("cannot open a socket: ") + std::strerror(errno));
  connection_ = Descriptor(ends[0]);
  const Descriptor other_end(ends[1]);
  pid_ = fork();
  if (pid_ < 0)
    throw LaunchError(std::string("cannot start another process: ") + std::strerror(errno));
  if (pid_ == 0) follow(*follower, other_end.get(), to);
}

Tee::~Tee() {
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Tee::finish() {
  shutdown(connection_.get(), SHUT_WR);
}

}  // namespace accelerate::detail
