// JSON that is parsed once and read in place: a vocabulary of 128,000 entries takes milliseconds.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate::detail {

/// A value of a JSON document, with its place in the document for messages. Valid as long as its
/// JsonDocument lives. A getter for another type throws ConfigError, for example
/// "FILE: PLACE is a list; allowed is a string".
class JsonView {
 public:
  JsonView(simdjson::dom::element value, std::string place)
      : value_(value), place_(std::move(place)) {}

  [[nodiscard]] bool is_null() const { return value_.is_null(); }
  [[nodiscard]] bool is_string() const { return value_.is_string(); }
  [[nodiscard]] bool is_list() const { return value_.is_array(); }
  [[nodiscard]] bool is_map() const { return value_.is_object(); }
  [[nodiscard]] const std::string& place() const { return place_; }

  /// Returns the value of `key` in a map; nullopt if it is missing or null.
  [[nodiscard]] std::optional<JsonView> find(std::string_view key) const;
  /// Returns the value of `key` in a map; throws ConfigError if it is missing or null.
  [[nodiscard]] JsonView at(std::string_view key) const;

  [[nodiscard]] std::string_view text() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] std::uint32_t id() const;   ///< 0 to 2^32 - 2
  [[nodiscard]] std::size_t count() const;  ///< 0 or more
  [[nodiscard]] std::string_view text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] bool boolean(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::size_t count(std::string_view key, std::size_t otherwise) const;

  [[nodiscard]] std::size_t size() const;  ///< The number of entries of a list or a map.
  void each(const std::function<void(const JsonView&)>& visit) const;
  /// The raw entries, for vocabularies: no place is made for each.
  [[nodiscard]] simdjson::dom::object map() const;
  [[nodiscard]] simdjson::dom::array list() const;

  /// Throws ConfigError "PLACE `what`".
  [[noreturn]] void refuse(const std::string& what, ErrorName name = {}) const;

 private:
  [[nodiscard]] std::string described() const;
  [[noreturn]] void refuse_type(std::string_view allowed) const;

  simdjson::dom::element value_;
  std::string place_;
};

/// Parses `text`; `name` stands for the file in messages. Throws ConfigError for invalid JSON, for
/// nesting beyond 64 levels and for more than 1 GiB.
class JsonDocument {
 public:
  JsonDocument(std::string_view text, const std::string& name);
  [[nodiscard]] const JsonView& root() const { return *root_; }

 private:
  simdjson::dom::parser parser_;
  std::optional<JsonView> root_;
};

}  // namespace accelerate::detail
