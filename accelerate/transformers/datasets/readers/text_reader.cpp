// Reads text: each line is a row.
#include <algorithm>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/datasets/readers/chunk_reader.h"
#include "accelerate/transformers/datasets/readers/file_window.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"

namespace accelerate::detail {
namespace {

class TextReader : public ChunkReader {
 public:
  TextReader(const std::filesystem::path& file, const ReaderOptions& options)
      : file_(file),
        rows_in_batch_(options.rows_in_batch),
        bytes_in_batch_(options.bytes_in_batch),
        window_(file) {
    if (options.features && *options.features != features_) {
      throw DataError(file.string() +
                      ": a text has the column 'text' of strings; .features names " +
                      described(*options.features));
    }
  }

  const Features& features() const override { return features_; }

  std::optional<Chunk> next() override {
    ColumnBuilder lines(Feature::string());
    while (lines.size() < rows_in_batch_ && lines.bytes() < bytes_in_batch_ && append_line(lines)) {
    }
    if (lines.size() == 0) return std::nullopt;
    Chunk chunk{.rows = lines.size()};
    chunk.columns.push_back(lines.finish());
    return chunk;
  }

 private:
  // Returns false at the end of the file.
  bool append_line(ColumnBuilder& lines) {
    std::size_t end = 0;
    while ((end = window_.text().find_first_of("\r\n", end)) == std::string_view::npos) {
      end = window_.text().size();
      if (!window_.grow()) break;
    }
    if (window_.text().empty()) return false;
    end = std::min(end, window_.text().size());
    // A line ends with \n, \r or \r\n.
    const bool may_be_two = end < window_.text().size() && window_.text()[end] == '\r';
    if (may_be_two && end + 1 == window_.text().size()) (void)window_.grow();
    const std::string_view text = window_.text();
    const bool is_two = may_be_two && text.substr(end + 1).starts_with('\n');
    ++line_;
    if (!is_utf8(text.substr(0, end))) {
      throw DataError(file_.string() + ", line " + std::to_string(line_) + ": is not UTF-8");
    }
    lines.append(text.substr(0, end));
    window_.leave(std::min(text.size(), end + (is_two ? 2 : 1)));
    return true;
  }

  std::filesystem::path file_;
  std::size_t rows_in_batch_, bytes_in_batch_;
  FileWindow window_;
  std::size_t line_ = 0;
  Features features_{{"text", Feature::string()}};
};

}  // namespace

std::unique_ptr<ChunkReader> read_text(const std::filesystem::path& file,
                                       const ReaderOptions& options) {
  return std::make_unique<TextReader>(file, options);
}

}  // namespace accelerate::detail
