#include "accelerate/transformers/datasets/readers/csv_records.h"

#include <algorithm>
#include <new>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

// A longer record is libcsv's, so that the window does not have to hold it.
constexpr std::size_t kLongestPlainRecord = 1 << 20;

// Returns how many of '\n', "\r\n" and '\r' are in `text`.
std::size_t line_ends(std::string_view text) {
  std::size_t count = 0;
  for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', end + 1))
    ++count;
  for (auto end = text.find('\r'); end != std::string_view::npos; end = text.find('\r', end + 1))
    count += text.substr(end + 1).starts_with('\n') ? 0 : 1;
  return count;
}

}  // namespace

CsvRecords::CsvRecords(const std::filesystem::path& file, const CsvOptions& options)
    : file_(file.string()), delimiter_(options.delimiter), quote_(options.quote), window_(file) {
  check(options);
  set_up_parser();
  for (const char c : {delimiter_, quote_, '\r', '\n'})
    ends_field_[static_cast<unsigned char>(c)] = true;
  (void)window_.grow();
  if (window_.text().starts_with(kByteOrderMark)) window_.leave(kByteOrderMark.size());
  for (std::size_t i = 0; i < options.skip_rows; ++i) skip_line();
}

void CsvRecords::set_up_parser() {
  if (csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
  between_records_ = parser_.pstate;
  csv_set_delim(&parser_, static_cast<unsigned char>(delimiter_));
  csv_set_quote(&parser_, static_cast<unsigned char>(quote_));
  // Spaces around a field belong to it.
  csv_set_space_func(&parser_, [](unsigned char) { return 0; });
}

bool CsvRecords::parse_some(CsvBatch& batch) {
  if (is_done_) return false;
  batch_ = &batch;
  const bool begins_record = is_between_records();
  if (begins_record) record_line_ = line_;
  if (const auto* fields = plain_record()) {
    for (const std::string_view field : *fields) batch.add_field(field);
    batch.end_record(record_line_);
    return true;
  }
  const Line line = next_line();
  if (line.size == 0) {
    is_done_ = true;
    if (csv_fini(&parser_, take_field, take_record, this) != 0)
      refuse(record_line_, "a quote that opens in this row is not closed");
    return true;
  }
  parse_line(line, begins_record);
  return true;
}

// Grows the window until it has the line with its end. A longer line than a plain record, which may
// be of any size, comes in pieces.
CsvRecords::Line CsvRecords::next_line() {
  for (std::size_t searched = 0;;) {
    const std::string_view text = window_.text();
    const std::size_t end = text.find_first_of("\r\n", searched);
    // Whether '\n' follows a '\r' shows in the next bytes.
    if (end < text.size() && (text[end] == '\n' || end + 1 < text.size())) {
      const bool is_pair = text[end] == '\r' && text[end + 1] == '\n';
      return {.size = end + (is_pair ? 2 : 1), .is_whole = true, .has_end = true};
    }
    searched = std::min(end, text.size());
    if (text.size() > kLongestPlainRecord) return {.size = text.size()};
    if (window_.grow()) continue;
    return {.size = text.size(), .is_whole = true, .has_end = end < text.size()};
  }
}

const std::vector<std::string_view>* CsvRecords::plain_record() {
  if (is_done_ || !is_between_records()) return nullptr;
  Found found = split_record(window_.text());
  while (found == Found::end_of_window && window_.text().size() <= kLongestPlainRecord &&
         window_.grow())
    found = split_record(window_.text());
  if (found != Found::record) return nullptr;
  window_.leave(record_size_);
  line_ += record_lines_;
  return &fields_;
}

std::optional<CsvRecords::Place> CsvRecords::place() const {
  if (!is_between_records()) return std::nullopt;
  return Place{.byte = window_.place(), .line = line_};
}

void CsvRecords::go_back(const Place& place) {
  window_.go_back(place.byte);
  line_ = place.line;
  csv_free(&parser_);
  set_up_parser();
  is_done_ = false;
}

// Splits the record at the beginning of `text`. Blank lines, line ends of other systems and quotes
// within unquoted fields are not plain.
CsvRecords::Found CsvRecords::split_record(std::string_view text) {
  fields_.clear();
  if (!unquoted_.empty()) unquoted_.clear();
  record_lines_ = 1;
  if (!text.empty() && is_blank(text.substr(0, 1))) return Found::nothing_plain;
  const bool* const ends_field = ends_field_.data();  // Here, since this loop decides the speed.
  const char* const bytes = text.data();
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == quote_) {
      const Found found = take_quoted(text, at);
      if (found != Found::record) return found;
    } else {
      const std::size_t begin = at, size = text.size();
      while (at < size && !ends_field[static_cast<unsigned char>(bytes[at])]) ++at;
      fields_.emplace_back(bytes + begin, at - begin);
    }
    if (at < text.size() && text[at] == delimiter_) continue;
    if (at < text.size() && text[at] == '\r') ++at;
    if (at >= text.size()) break;
    if (text[at] != '\n') return Found::nothing_plain;
    record_size_ = at + 1;
    return Found::record;
  }
  return Found::end_of_window;
}

// Takes the quoted field that begins at `at`, and moves behind it.
CsvRecords::Found CsvRecords::take_quoted(std::string_view text, std::size_t& at) {
  const std::size_t begin = ++at;
  std::string* unquoted = nullptr;
  for (std::size_t from = begin;;) {
    at = text.find(quote_, from);
    if (at == std::string_view::npos || at + 1 == text.size()) return Found::end_of_window;
    const bool is_doubled = text[at + 1] == quote_;
    if (is_doubled && unquoted == nullptr) unquoted = &unquoted_.emplace_back();
    if (unquoted != nullptr) *unquoted += text.substr(from, at - from + (is_doubled ? 1 : 0));
    if (!is_doubled) break;
    from = at + 2;
  }
  const std::string_view all = text.substr(begin, at - begin);
  record_lines_ += line_ends(all);
  fields_.push_back(unquoted == nullptr ? all : *unquoted);
  ++at;
  return Found::record;
}

void CsvRecords::parse_line(const Line& line, bool begins_record) {
  const std::string_view text = window_.text().substr(0, line.size);
  const bool is_record = begins_record && line.is_whole;
  // As pandas: a blank line is not a record, and quotes that do not begin a field are text.
  if (!is_record || !is_blank(text)) {
    if (is_record && has_quotes_as_text(text)) csv_set_opts(&parser_, CSV_STRICT_FINI);
    const std::size_t parsed =
        csv_parse(&parser_, text.data(), text.size(), take_field, take_record, this);
    if (parsed != text.size()) refuse_quote();
    csv_set_opts(&parser_, CSV_STRICT | CSV_STRICT_FINI);
  }
  window_.leave(line.size);
  if (line.has_end) ++line_;
}

void CsvRecords::refuse_quote() {
  if (csv_error(&parser_) != CSV_EPARSE) throw std::bad_alloc();
  refuse(line_,
         "a quote stands where none may. A field with quotes in it stands in quotes, each quote "
         "twice; if quotes mean nothing in this file, give .csv.quote = '\\0'");
}

bool CsvRecords::is_blank(std::string_view line) const {
  return std::ranges::all_of(line, [&](char c) {
    return (c == ' ' || c == '\t' || c == '\r' || c == '\n') && c != delimiter_;
  });
}

// Whether a line has quotes, but none at the beginning of a field.
bool CsvRecords::has_quotes_as_text(std::string_view line) const {
  std::size_t place = line.find(quote_);
  if (place == std::string_view::npos) return false;
  for (; place != std::string_view::npos; place = line.find(quote_, place + 1)) {
    if (place == 0 || line[place - 1] == delimiter_) return false;
  }
  return true;
}

void CsvRecords::skip_line() {
  Line line;
  do {
    line = next_line();
    window_.leave(line.size);
  } while (!line.is_whole);
  if (line.has_end) ++line_;
}

void CsvRecords::check(const CsvOptions& options) {
  const auto ends_lines = [](char c) { return c == '\n' || c == '\r'; };
  if (ends_lines(options.delimiter) || ends_lines(options.quote) ||
      options.delimiter == options.quote) {
    throw UsageError(
        "the delimiter and the quote of CSV are two characters, and neither of them ends a line");
  }
}

void CsvRecords::refuse(std::size_t line, const std::string& what) const {
  throw DataError(file_ + ", line " + std::to_string(line) + ", column " +
                  std::to_string(batch_->open_fields() + 1) + ": " + what);
}

void CsvRecords::take_field(void* bytes, std::size_t size, void* self) {
  static_cast<CsvRecords*>(self)->batch_->add_field({static_cast<const char*>(bytes), size});
}

void CsvRecords::take_record(int, void* self) {
  const auto& records = *static_cast<CsvRecords*>(self);
  records.batch_->end_record(records.record_line_);
}

}  // namespace accelerate::detail
