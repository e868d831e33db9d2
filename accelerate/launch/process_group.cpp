#include "accelerate/launch/process_group.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "accelerate/base/text.h"
#include "accelerate/launch/signals.h"

namespace accelerate::detail {
namespace {

namespace fs = std::filesystem;

// /proc/PID/stat: "PID (name) state ppid pgrp …"; the name may hold blanks and parentheses.
bool runs_in_group(const fs::path& process, pid_t leader) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text);
  const auto end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return false;
  std::istringstream fields(text.substr(end_of_name + 1));
  char state = 0;
  pid_t parent = 0;
  pid_t group = 0;
  fields >> state >> parent >> group;
  return group == leader && state != 'Z' && state != 'X';
}

}  // namespace

bool group_runs(pid_t leader) {
  if (kill(-leader, 0) != 0) return false;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    if (parse_int(entry.path().filename().string()) && runs_in_group(entry.path(), leader)) {
      return true;
    }
  }
  return false;
}

void signal_group(pid_t leader, int signal) {
  kill(-leader, signal);
  if (asks_to_end(signal)) kill(-leader, SIGCONT);
}

}  // namespace accelerate::detail
