#include "accelerate/transformers/tokenizers/json_view.h"

#include <limits>

#include "accelerate/base/error.h"

namespace accelerate::detail {

namespace dom = simdjson::dom;

std::optional<JsonView> JsonView::find(std::string_view key) const {
  dom::element found;
  if (map().at_key(key).get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
  return JsonView(found, place_ + "." + std::string(key));
}

JsonView JsonView::at(std::string_view key) const {
  if (auto found = find(key)) return *found;
  refuse("has no '" + std::string(key) + "'");
}

std::string_view JsonView::text() const {
  std::string_view text;
  if (value_.get(text) != simdjson::SUCCESS) refuse_type("a string");
  return text;
}

bool JsonView::boolean() const {
  bool value = false;
  if (value_.get(value) != simdjson::SUCCESS) refuse_type("true or false");
  return value;
}

double JsonView::number() const {
  double value = 0;
  if (value_.get(value) != simdjson::SUCCESS) refuse_type("a number");
  return value;
}

std::size_t JsonView::count() const {
  std::uint64_t value = 0;
  if (value_.get(value) != simdjson::SUCCESS) refuse_type("a number from 0 on");
  return value;
}

std::uint32_t JsonView::id() const {
  const std::size_t value = count();
  if (value >= std::numeric_limits<std::uint32_t>::max()) {
    refuse("is " + std::to_string(value) + "; ids are below 2^32 - 1");
  }
  return static_cast<std::uint32_t>(value);
}

std::string_view JsonView::text(std::string_view key, std::string_view otherwise) const {
  const auto found = find(key);
  return found ? found->text() : otherwise;
}

bool JsonView::boolean(std::string_view key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->boolean() : otherwise;
}

std::size_t JsonView::count(std::string_view key, std::size_t otherwise) const {
  const auto found = find(key);
  return found ? found->count() : otherwise;
}

dom::object JsonView::map() const {
  dom::object map;
  if (value_.get(map) != simdjson::SUCCESS) refuse_type("a map");
  return map;
}

dom::array JsonView::list() const {
  dom::array list;
  if (value_.get(list) != simdjson::SUCCESS) refuse_type("a list");
  return list;
}

// simdjson's own size() stops counting at 2^24.
std::size_t JsonView::size() const {
  std::size_t count = 0;
  if (is_map()) {
    for ([[maybe_unused]] auto entry : map()) ++count;
  } else {
    for ([[maybe_unused]] auto entry : list()) ++count;
  }
  return count;
}

void JsonView::each(const std::function<void(const JsonView&)>& visit) const {
  std::size_t number = 0;
  for (const dom::element item : list()) {
    visit(JsonView(item, place_ + "[" + std::to_string(number++) + "]"));
  }
}

std::string JsonView::described() const {
  switch (value_.type()) {
    case dom::element_type::ARRAY:
      return "a list";
    case dom::element_type::OBJECT:
      return "a map";
    case dom::element_type::STRING:
      return "'" + std::string(text().substr(0, 40)) + "'";
    default:
      return simdjson::minify(value_);
  }
}

void JsonView::refuse_type(std::string_view allowed) const {
  refuse("is " + described() + "; allowed is " + std::string(allowed));
}

void JsonView::refuse(const std::string& what, ErrorName name) const {
  throw ConfigError(place_ + " " + what, name);
}

JsonDocument::JsonDocument(std::string_view text, const std::string& name)
    : parser_(std::size_t{1} << 30) {
  constexpr std::size_t kDepth = 64;
  dom::element root;
  auto error = parser_.allocate(text.size(), kDepth);
  if (error == simdjson::SUCCESS) error = parser_.parse(text.data(), text.size()).get(root);
  if (error == simdjson::SUCCESS) {
    root_.emplace(root, name + ":");
    return;
  }
  throw ConfigError(name + " is not JSON that can be read: " + simdjson::error_message(error) +
                    ". Is the file cut short, or a pointer of git-lfs?");
}

}  // namespace accelerate::detail
