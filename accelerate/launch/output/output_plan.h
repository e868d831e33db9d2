// Where ranks write, as plain data: the terminal, files, both, or nowhere.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// Where a standard stream of a rank goes.
enum class Destination {
  terminal,  ///< The launcher's own stream.
  file,
  both,  ///< A file, and from there line by line to the launcher's stream.
  nowhere
};

struct RankStreams {
  Destination out = Destination::terminal;
  Destination err = Destination::terminal;
  std::string prefix = {};  ///< Begins each line that is copied from a file.

  [[nodiscard]] bool operator==(const RankStreams&) const = default;
};

struct OutputPlan {
  /// By local rank; empty if all write to the terminal.
  std::vector<RankStreams> ranks = {};
  /// Whether each rank is told a file for what ends it (TORCHELASTIC_ERROR_FILE).
  bool has_error_files = false;
  std::filesystem::path log_dir = {};  ///< Below it each run gets a folder; empty: a temporary one.
  /// The folder of this run, which RunFolder makes. Files of a rank lie in
  /// attempt_<attempt>/<local rank> below it.
  std::filesystem::path folder = {};

  /// Whether a stream goes to a file.
  [[nodiscard]] bool has_files() const;
};

namespace detail {

/// Which streams of a rank are meant, as torchrun numbers them.
enum class Streams { none, out, err, both };

/// Reads "0" to "3", which holds for all `ranks` ranks of a machine, or "0:1,2:3", which names local
/// ranks. Throws ConfigError, which begins with `where` ("--tee").
[[nodiscard]] std::vector<Streams> parse_streams(const std::string& text, int ranks,
                                                 const std::string& where);

/// The flags of these names, as they were written; empty if they were not.
struct OutputFlags {
  std::string tee = {};
  std::string redirects = {};
  std::string local_ranks_filter = {};
  std::string log_dir = {};
};

/// Returns where the `ranks` ranks of a machine write. Throws ConfigError, which names the flag.
[[nodiscard]] OutputPlan parse_output(const OutputFlags& flags, int ranks);

/// Returns `text` with `values` in the place of $name and ${name}; other names stay, and $$ becomes
/// $. Source: string.Template.safe_substitute of Python.
[[nodiscard]] std::string fill_template(std::string_view text,
                                        const std::map<std::string, std::string>& values);

}  // namespace detail
}  // namespace accelerate
