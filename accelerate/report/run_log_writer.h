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
#include "accelerate/report/run_events.h"

namespace accelerate {

/// Writes each event as one line by one write(), so that a reader sees it at once and a killed
/// process leaves at most its last line cut. An event without a time gets the clock's.
///
/// Threads: one at a time. Every call throws FileError when the file cannot be written, such as on
/// a full disk; the next call begins a new line. Cost: about ten microseconds an event.
class RunLogWriter {
 public:
  /// Opens the file at `path` to append, or makes it. What is there stays: a begin event with the
  /// step of a checkpoint tells readers what to disregard. A cut last line is ended.
  explicit RunLogWriter(std::filesystem::path path);

  void begin(RunBegin event);
  void log(RunLogged event);
  void evaluate(RunEvaluated event);
  void save(RunSaved event);
  /// A text of more than 64 KiB is cut.
  void note(RunNote event);
  void end(RunEnd event);

 private:
  template <typename Event>
  void append(Event event);
  void write_line(const std::string& line);

  std::filesystem::path path_;
  Descriptor file_;
  bool cut_ = false;  // Whether the file ends within a line.
};

}  // namespace accelerate
