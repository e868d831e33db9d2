// TensorBoard's event files: a sequence of checksummed records, each a serialised Event message.
// Every function returns whole records, ready to be appended to a file. docs/formats/tensorboard.md
// has the layout. The messages equal those of `torch.utils.tensorboard` byte for byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace accelerate {

/// When something was logged.
struct EventStamp {
  double wall_time = 0;   ///< Seconds since 1970.
  std::int64_t step = 0;  ///< Training step; 0 if none was given.
};

/// An image as a PNG file.
struct PngImage {
  int height = 0;
  int width = 0;
  int channels = 0;  ///< 3 RGB, 4 RGBA.
  std::string png;   ///< The file.
};

/// The distribution of values. Bucket i counts the values in (limit[i-1], limit[i]].
struct HistogramSummary {
  double min = 0, max = 0, num = 0, sum = 0, sum_squares = 0;
  std::vector<double> bucket_limit;
  std::vector<double> bucket;  ///< As long as bucket_limit.
};

/// The value of a hyperparameter.
using HparamValue = std::variant<bool, double, std::string>;
using Hparams = std::vector<std::pair<std::string, HparamValue>>;

/// Returns `payload` with its length and checksums, in TensorFlow's record framing.
[[nodiscard]] std::string framed_record(std::string_view payload);

/// Returns the CRC-32C, rotated and shifted, so that the checksum of data that contains checksums
/// stays reliable.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

/// Returns the event with which every file begins.
[[nodiscard]] std::string file_version_event(double wall_time);
[[nodiscard]] std::string scalar_event(const EventStamp& stamp, std::string_view tag, float value);
/// Returns a text that TensorBoard shows under Text. "/text_summary" is appended to the tag, as the
/// plugin wants it. `text` is UTF-8.
[[nodiscard]] std::string text_event(const EventStamp& stamp, std::string_view tag,
                                     std::string_view text);
[[nodiscard]] std::string image_event(const EventStamp& stamp, std::string_view tag,
                                      const PngImage& image);
[[nodiscard]] std::string histogram_event(const EventStamp& stamp, std::string_view tag,
                                          const HistogramSummary& histogram);
/// Returns the three records that tell the HParams plugin about a run: the hyperparameters there
/// are, this run's values, and that the run has begun and ended.
[[nodiscard]] std::string hparams_events(const EventStamp& stamp, const Hparams& hparams);

}  // namespace accelerate
