// How the programs measure, and the one line in which they report. originals/measure.py does the
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

/// Returns how long `work` takes.
template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// How many steps are timed: after the warm-up steps, `blocks` blocks of `steps_per_block` steps,
/// each block as a whole. Single steps of a rank may borrow time from their neighbours, since ranks
/// meet only once a step.
struct TimedBlocks {
  int warm_up_steps, blocks, steps_per_block;
};

/// Returns how long each block takes; `train(steps)` trains.
template <typename Train>
std::vector<double> block_seconds(const TimedBlocks& timed, Train&& train) {
  train(timed.warm_up_steps);
  std::vector<double> seconds;
  for (int i = 0; i < timed.blocks; ++i) {
    seconds.push_back(seconds_of([&] { train(timed.steps_per_block); }));
  }
  return seconds;
}

/// Returns a line of /proc/self/status that counts KiB, such as VmRSS (resident now) or VmHWM (the
/// most so far).
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

/// Returns the program's arguments, `names.size()` whole numbers of at least 0. Throws
/// std::invalid_argument.
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

/// main() of a program: calls `run` with its arguments, whole numbers called `names` in messages.
template <typename Run>
int run_with_numbers(int argc, char** argv, const std::vector<std::string>& names, Run&& run) try {
  run(numbers(argc, argv, names));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}

/// As run_with_numbers(), of a program whose first argument is a word: calls `run` with the word and
/// the numbers.
template <typename Run>
int run_with_word(int argc, char** argv, const std::vector<std::string>& names, Run&& run) {
  std::vector<char*> words(argv, argv + argc);
  const std::string word = argc > 1 ? argv[1] : "";
  if (argc > 1) words.erase(words.begin() + 1);
  return run_with_numbers(static_cast<int>(words.size()), words.data(), names,
                          [&](const std::vector<int>& values) { run(word, values); });
}

/// main() of a program that times blocks: calls `run` with the TimedBlocks of its arguments.
template <typename Run>
int run_timed_blocks(int argc, char** argv, Run&& run) {
  return run_with_numbers(
      argc, argv, {"WARM_UP_STEPS", "BLOCKS", "STEPS_PER_BLOCK"},
      [&](const std::vector<int>& values) { run(TimedBlocks{values[0], values[1], values[2]}); });
}

}  // namespace bench
