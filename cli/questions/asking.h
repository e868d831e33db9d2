// Short ways to ask questions, for interviews.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/launch/config/cluster_config.h"
#include "cli/questions/question.h"

namespace accelerate::cli {

/// Asks questions, and writes the answers into the keys of a configuration.
class Asking {
 public:
  Asking(Respondent& respondent, ClusterConfig& config)
      : respondent_(respondent), config_(config) {}

  void tell(const std::string& note) { respondent_.tell({note}); }
  /// Tells, in a sentence, what this version does not do.
  void tell_for_python(const std::string& what);

  [[nodiscard]] bool yes(const std::string& text, bool fallback, const std::string& help);
  [[nodiscard]] std::string menu(const std::string& text, std::vector<std::string> choices,
                                 const std::string& fallback, const std::string& help);
  [[nodiscard]] std::string text(const std::string& text, const std::string& fallback,
                                 const std::string& help);
  /// Asks for texts between commas; an empty answer is allowed.
  [[nodiscard]] std::vector<std::string> list(const std::string& text, const std::string& help);

  /// Asks for the value of a key. The key's documentation is the help, and its rules are checked.
  /// These functions return what was written.
  bool yes_for(const std::string& key, const std::string& text, bool fallback);
  /// Offers the key's own choices, unless others are given. The first choice is the usual answer.
  std::string menu_for(const std::string& key, const std::string& text,
                       std::vector<std::string> choices = {});
  /// `check` throws ConfigError for values that the key's rules allow and the question does not.
  std::string text_for(const std::string& key, const std::string& text,
                       const std::string& fallback = "",
                       const std::function<void(const std::string&)>& check = {});
  /// Asks for a text that may be left out. An empty answer leaves the key out of the file.
  void optional_text_for(const std::string& key, const std::string& text);
  std::int64_t number_for(const std::string& key, const std::string& text,
                          const std::string& fallback = "",
                          const std::function<void(std::int64_t)>& check = {});
  void set(const std::string& key, const std::string& text);

 private:
  Respondent& respondent_;
  ClusterConfig& config_;
};

/// Returns what the key called `name` means.
[[nodiscard]] std::string help_of(const std::string& name);

}  // namespace accelerate::cli
