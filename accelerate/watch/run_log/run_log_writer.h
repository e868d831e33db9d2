// Appends the events of a training to run_log.jsonl, for `accelerate report` and `accelerate
// watch`.
//
//   RunLogWriter log(output_dir / kRunLogFile);
//   log.begin({.step = 0, .max_steps = 1000, .model = "BertForSequenceClassification"});
//   log.log({.step = 10, .loss = 0.71});
//   log.end({.step = 1000});
#pragma once

#include <filesystem>
#include <string>

#include "accelerate/base/descriptor.h"
#include "accelerate/watch/run_log/run_events.h"

namespace accelerate {

/// Writes each event as one line with one write(), so that a reader sees it immediately and a
/// killed process leaves at most one incomplete line. An event without a time gets the current
/// time.
///
/// Threads: use it from one thread at a time. Every call throws FileError when the file cannot be
/// written, for example when the disk is full; the next call begins a new line. Cost: about ten
/// microseconds an event.
class RunLogWriter {
 public:
  /// Opens the file at `path` to append, or creates it. Existing lines stay: a begin event with the
  /// step of a checkpoint tells readers which lines to disregard. If the last line is incomplete,
  /// the first event starts a new line.
  explicit RunLogWriter(std::filesystem::path path);

  void begin(RunBegin event);
  void log(RunLogged event);
  void evaluate(RunEvaluated event);
  void save(RunSaved event);
  /// Truncates a text of more than 64 KiB.
  void note(RunNote event);
  void end(RunEnd event);

 private:
  template <typename Event>
  void append(Event event);
  void write_line(const std::string& line);

  std::filesystem::path path_;
  Descriptor file_;
  bool cut_ = false;  // Whether the file ends with an incomplete line.
};

}  // namespace accelerate
