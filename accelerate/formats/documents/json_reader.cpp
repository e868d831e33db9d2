#include <algorithm>
#include <nlohmann/json.hpp>

#include "accelerate/base/text.h"
#include "accelerate/formats/documents/document_builder.h"
#include "accelerate/formats/documents/json.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;

constexpr int kNumberOverflow = 406;  // nlohmann's number of that error.

// Iterates over the text and counts the line feeds it passes, because the parser's events carry no
// position. nlohmann copies the iterator, so all copies share the count through a pointer.
class LineCounting {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCounting(const char* at, int* line) : at_(at), line_(line) {}

  reference operator*() const { return *at_; }
  LineCounting& operator++() {
    if (*at_++ == '\n') ++*line_;
    return *this;
  }
  LineCounting operator++(int) {
    LineCounting before = *this;
    ++*this;
    return before;
  }
  bool operator==(const LineCounting& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  int* line_;
};

class JsonHandler : public nlohmann::json_sax<Json> {
 public:
  JsonHandler(const std::string& name, const DocumentLimits& limits, const int* line)
      : builder_(name, limits), line_(line) {}

  Node take() { return builder_.take(); }

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(Node::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Node::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return add(Node::plain(std::to_string(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return add(Node::real(value));
  }
  bool string(string_t& value) override { return add(Node::string(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return begin(Node::Kind::map); }
  bool start_array(std::size_t) override { return begin(Node::Kind::sequence); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }

  bool key(string_t& value) override {
    builder_.key(value, *line_);
    return true;
  }

  bool parse_error(std::size_t, const std::string& token, const Json::exception& error) override {
    const std::string shown = token.substr(0, 40);
    if (error.id == kNumberOverflow)
      builder_.fail(*line_, "the number '" + shown +
                                "' is too large; allowed are numbers of at most 1.8e308 in size");
    // nlohmann's message begins with its own name and position; only the rest is useful beside our
    // line.
    std::string what = error.what();
    if (const auto colon = what.find(": "); colon != std::string::npos) what.erase(0, colon + 2);
    if (const auto name = what.find("] "); what.starts_with('[') && name != std::string::npos)
      what.erase(0, name + 2);
    builder_.fail(*line_, "this is not JSON near '" + shown + "': " + what);
  }

 private:
  bool add(Node node) {
    node.line = *line_;
    builder_.scalar(std::move(node));
    return true;
  }
  bool begin(Node::Kind kind) {
    builder_.begin(kind, *line_);
    return true;
  }
  bool end() {
    builder_.end();
    return true;
  }

  detail::DocumentBuilder builder_;
  const int* line_;
};

}  // namespace

Node read_json(std::string_view text, const std::string& name, const DocumentLimits& limits) {
  detail::check_text(text, name, limits);
  if (trim(text).empty()) return {};
  int line = 1;
  JsonHandler handler(name, limits, &line);
  const char* begin = text.data();
  Json::sax_parse(LineCounting(begin, &line), LineCounting(begin + text.size(), &line), &handler);
  return handler.take();
}

}  // namespace accelerate
