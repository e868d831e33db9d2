// Short ways to ask, for interviews.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/config/cluster_config.h"
#include "cli/questions/question.h"

namespace accelerate::cli {

/// Asks, and writes answers into the keys of a configuration.
class Asking {
 public:
  Asking(Respondent& respondent, ClusterConfig& config)
      : respondent_(respondent), config_(config) {}

  void tell(const std::string& note) { respondent_.tell({note}); }
  /// Tells what this version does not do, a sentence.
  void tell_for_python(const std::string& what);

  [[nodiscard]] bool yes(const std::string& text, bool fallback, const std::string& help);
  [[nodiscard]] std::string menu(const std::string& text, std::vector<std::string> choices,
                                 const std::string& fallback, const std::string& help);
  [[nodiscard]] std::string text(const std::string& text, const std::string& fallback,
                                 const std::string& help);
  /// Texts between commas; none is an answer too.
  [[nodiscard]] std::vector<std::string> list(const std::string& text, const std::string& help);

  /// The same for a key, whose documentation is the help and whose rules are checked. Each returns
  /// what was written.
  bool yes_for(const std::string& key, const std::string& text, bool fallback);
  /// Of the key's own choices, unless others are given; the first is the usual one.
  std::string menu_for(const std::string& key, const std::string& text,
                       std::vector<std::string> choices = {});
  /// `check` throws ConfigError for what the key's rules allow and the question does not.
  std::string text_for(const std::string& key, const std::string& text,
                       const std::string& fallback = "",
                       const std::function<void(const std::string&)>& check = {});
  std::int64_t number_for(const std::string& key, const std::string& text,
                          const std::string& fallback = "",
                          const std::function<void(std::int64_t)>& check = {});
  void set(const std::string& key, const std::string& text);

 private:
  std::string typed_for(const std::string& key, const std::string& text,
                        const std::string& fallback,
                        const std::function<void(const ClusterConfig&)>& also);

  Respondent& respondent_;
  ClusterConfig& config_;
};

/// What the key called `name` means.
[[nodiscard]] std::string help_of(const std::string& name);

}  // namespace accelerate::cli
