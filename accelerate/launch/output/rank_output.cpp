#include "accelerate/launch/output/rank_output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "accelerate/base/error.h"
#include "accelerate/base/file_error.h"

namespace accelerate::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOut = "stdout.log";
constexpr const char* kErr = "stderr.log";

bool is_file(Destination to) {
  return to == Destination::file || to == Destination::both;
}

[[noreturn]] void refuse_file(const fs::path& path, int error) {
  throw LaunchError("cannot write what ranks write into " + quoted_path(path) + ": " +
                        std::strerror(error) +
                        ". Is the disk full, or the limit (ulimit -n) too low?",
                    detail::name_of_errno(error));
}

Descriptor opened(const fs::path& path, int flags) {
  Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666));
  if (!file.valid()) refuse_file(path, errno);
  return file;
}

// Appended to, so that a file that somebody empties meanwhile begins anew.
Descriptor opened_for(Destination to, const fs::path& path) {
  if (is_file(to)) return opened(path, O_APPEND);
  return to == Destination::nowhere ? opened("/dev/null", 0) : Descriptor();
}

}  // namespace

RankOutput::RankOutput(const LaunchPlan& plan) : plan_(plan.output), ranks_(plan.ranks.size()) {
  if (!plan_.ranks.empty() && plan_.ranks.size() != ranks_)
    throw LaunchError("the plan has " + std::to_string(ranks_) + " ranks and streams for " +
                      std::to_string(plan_.ranks.size()) + " of them");
  if (plan_.folder.empty()) {
    if (plan_.has_files())
      throw LaunchError(
          "ranks are to write into files, and the plan has no folder for them: see RunFolder in "
          "launch/output/run_folder.h");
    return;
  }
  folder_ = plan_.folder / ("attempt_" + std::to_string(plan.attempt));
  make_files();
  start_tee(STDOUT_FILENO, &RankStreams::out, kOut);
  start_tee(STDERR_FILENO, &RankStreams::err, kErr);
}

fs::path RankOutput::folder_of(std::size_t local_rank) const {
  return folder_ / std::to_string(local_rank);
}

void RankOutput::make_files() const {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    std::error_code error;
    fs::create_directories(folder_of(rank), error);
    if (error) refuse_file(folder_of(rank), error.value());
    if (plan_.ranks.empty()) continue;
    const RankStreams& streams = plan_.ranks[rank];
    if (is_file(streams.out)) opened(folder_of(rank) / kOut, O_CREAT | O_TRUNC);
    if (is_file(streams.err)) opened(folder_of(rank) / kErr, O_CREAT | O_TRUNC);
  }
}

void RankOutput::start_tee(int to, Destination RankStreams::* stream, const char* name) {
  std::vector<FollowedFile> files;
  for (std::size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
    if (plan_.ranks[rank].*stream == Destination::both)
      files.push_back({folder_of(rank) / name, plan_.ranks[rank].prefix});
  }
  if (!files.empty()) tees_.push_back(std::make_unique<Tee>(to, files));
}

RankOutput::Streams RankOutput::open_streams(std::size_t local_rank) const {
  if (plan_.ranks.empty()) return {};
  const RankStreams& streams = plan_.ranks[local_rank];
  return {opened_for(streams.out, folder_of(local_rank) / kOut),
          opened_for(streams.err, folder_of(local_rank) / kErr)};
}

fs::path RankOutput::error_file(std::size_t local_rank) const {
  if (!plan_.has_error_files || folder_.empty()) return {};
  return folder_of(local_rank) / "error.json";
}

std::vector<int> RankOutput::descriptors() const {
  std::vector<int> all;
  for (const auto& tee : tees_) all.push_back(tee->fd());
  return all;
}

void RankOutput::finish(SignalScope& signals, std::optional<Clock::time_point> limit) {
  for (const auto& tee : tees_) tee->finish();
  while (!tees_.empty()) {
    std::vector<pollfd> polls = {{signals.fd(), POLLIN, 0}};
    for (const auto& tee : tees_) polls.push_back({tee->fd(), POLLIN, 0});
    int wait = -1;
    if (limit) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*limit - Clock::now());
      wait = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
    }
    if (poll(polls.data(), polls.size(), wait) == 0) return tees_.clear();
    for (const int signal : signals.take()) {
      if (asks_to_end(signal)) return tees_.clear();
      if (signal == SIGTSTP) stop_like_ctrl_z();
    }
    for (std::size_t i = polls.size() - 1; i > 0; --i) {
      if (polls[i].revents != 0) tees_.erase(tees_.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
  }
}

}  // namespace accelerate::detail
