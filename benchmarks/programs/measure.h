// What the programs measure by, and the one line that they report in; originals/measure.py is the
// same in Python.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

/// Nanoseconds since 1970 on the clock that all processes of a machine share.
inline std::int64_t wall_clock_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// How long `work` takes.
template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A line of /proc/self/status that counts KiB, e.g. VmRSS (resident now) or VmHWM (at most so
/// far).
inline std::int64_t status_kib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == key + ":" && status >> kib) return kib;
  }
  throw std::runtime_error("/proc/self/status has no " + key);
}

/// Prints `values` and this process's memory as a line of JSON.
inline void report(nlohmann::json values) {
  values["resident_kib"] = status_kib("VmRSS");
  values["peak_kib"] = status_kib("VmHWM");
  std::puts(values.dump().c_str());
  std::fflush(stdout);
}

/// The program's arguments, `names.size()` whole numbers from 0 up. Throws std::invalid_argument.
inline std::vector<int> numbers(int argc, char** argv, const std::vector<std::string>& names) {
  std::string usage = std::string("usage: ") + argv[0];
  for (const auto& name : names) usage += " " + name;
  if (argc != static_cast<int>(names.size()) + 1) throw std::invalid_argument(usage);
  std::vector<int> values;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool digits = word.find_first_not_of("0123456789") == std::string::npos;
    if (word.empty() || word.size() > 6 || !digits) {
      throw std::invalid_argument("'" + word + "' is not a number from 0 to 999999; " + usage);
    }
    values.push_back(std::stoi(word));
  }
  return values;
}

}  // namespace bench
