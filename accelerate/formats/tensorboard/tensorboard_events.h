// TensorBoard's event files: a sequence of checked records, each a serialised Event message. Every
// function returns one whole record, ready to be appended to a file; docs/formats/tensorboard.md
// has the layout. The messages are byte for byte those of `torch.utils.tensorboard`.
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
  std::int64_t step = 0;  ///< Of the training; 0 when none was given.
};

/// An image as a PNG file.
struct PngImage {
  int height = 0;
  int width = 0;
  int channels = 0;  ///< 3 RGB, 4 RGBA.
  std::string png;   ///< The file.
};

/// How values are distributed: bucket i counts those in (limit[i-1], limit[i]].
struct HistogramSummary {
  double min = 0, max = 0, num = 0, sum = 0, sum_squares = 0;
  std::vector<double> bucket_limit;
  std::vector<double> bucket;  ///< As long as bucket_limit.
};

/// The value of a hyperparameter.
using HparamValue = std::variant<bool, double, std::string>;
using Hparams = std::vector<std::pair<std::string, HparamValue>>;

/// `payload` with its length and checksums, as TensorFlow frames records.
[[nodiscard]] std::string framed_record(std::string_view payload);

/// CRC-32C, rotated and shifted, so that a checksum of data which holds checksums stays a good one.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view bytes);

/// The event that every file begins with.
[[nodiscard]] std::string file_version_event(double wall_time);
[[nodiscard]] std::string scalar_event(const EventStamp& stamp, std::string_view tag, float value);
/// Shown under Text; the tag gets "/text_summary" appended, as the plugin wants it. UTF-8.
[[nodiscard]] std::string text_event(const EventStamp& stamp, std::string_view tag,
                                     std::string_view text);
[[nodiscard]] std::string image_event(const EventStamp& stamp, std::string_view tag,
                                      const PngImage& image);
[[nodiscard]] std::string histogram_event(const EventStamp& stamp, std::string_view tag,
                                          const HistogramSummary& histogram);
/// The three records with which a run tells its hyperparameters to the HParams plugin: what there
/// is, the values of this run, and that it has begun and ended.
[[nodiscard]] std::string hparams_events(const EventStamp& stamp, const Hparams& hparams);

}  // namespace accelerate
