#include "accelerate/launch/supervisor.h"

#include <signal.h>

#include <cstdio>
#include <cstring>

#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

std::string seconds(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(time.count()) / 1000);
  return text;
}

std::string line_about(const std::vector<int>& ranks, const std::string& fate) {
  if (ranks.empty()) return {};
  return "  " + std::string(ranks.size() == 1 ? "rank " : "ranks ") + ranges(ranks) + " " + fate +
         "\n";
}

std::string cause_of(const RankResult& rank) {
  switch (rank.signal.value_or(0)) {
    case SIGKILL:
      return "Often that is the kernel running out of memory (`dmesg | tail` says so), or a job "
             "scheduler's limit.";
    case SIGBUS:
      return "Often that is a full /dev/shm or a mapped file that became shorter.";
    case SIGILL:
      return "Often that is a program built for a newer CPU than this one.";
    case SIGSEGV:
      return "`ulimit -c unlimited` before the launch leaves a core file to look at.";
    case SIGXCPU:
      return "Its limit of CPU time (ulimit -t) was used up.";
    default:
      return {};
  }
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

std::string describe_rank(const RankResult& rank) {
  std::string text =
      "rank " + std::to_string(rank.rank) + " (pid " + std::to_string(rank.pid) + ") ";
  if (rank.signal) {
    text += "was killed by " + signal_name(*rank.signal) + " (" + strsignal(*rank.signal) + ")";
  } else {
    text += "exited with code " + std::to_string(rank.exit_code.value_or(0));
  }
  text += " after " + seconds(rank.ran_for);
  return rank.error.empty() ? text : text + ": " + rank.error;
}

std::string describe_asked(const RankResult& rank) {
  const int signal = rank.signal.value_or(rank.exit_code.value_or(128) - 128);
  return "rank " + std::to_string(rank.rank) + " (pid " + std::to_string(rank.pid) +
         ") ended after " + seconds(rank.ran_for) + " because it was asked to (" +
         signal_name(signal) + ")";
}

std::string likely_cause(const RankResult& rank) {
  const std::string cause = cause_of(rank);
  return cause.empty() ? cause : with_name(cause, error_name::kKilledBySignal);
}

std::string describe_end(const EndElsewhere& end) {
  return "machine " + std::to_string(end.machine) + " (" + end.host + "): " + end.what;
}

std::string describe_others(const LaunchResult& result) {
  if (!result.first_failure && !result.first_asked && !result.elsewhere) return {};
  std::string text;
  std::vector<int> stopped;
  std::vector<int> done;
  for (const auto& rank : result.ranks) {
    if (rank.rank == result.first_failure || rank.rank == result.first_asked) continue;
    if (rank.stopped_by_us) {
      stopped.push_back(rank.rank);
    } else if (!rank.failed()) {
      done.push_back(rank.rank);
    } else {
      text += "  " + describe_rank(rank) + ", at the same moment\n";
    }
  }
  return text + line_about(stopped, "ended when the launcher said so") +
         line_about(done, "had finished successfully before");
}

}  // namespace accelerate
