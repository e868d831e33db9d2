#include "accelerate/transformers/datasets/readers/json_numbers.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "accelerate/base/untrusted_text.h"

namespace accelerate::detail {
namespace {

// Visits the values of a text until one is a number that is too large.
class NumberSearch : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::optional<std::string> found;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t value) override {
    if (value >> 63 != 0) found = too_large_integer(key_, std::to_string(value));
    return !found;
  }
  // nlohmann::json reads an integer of more than 64 bits as a float.
  bool number_float(double, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) found = too_large_integer(key_, text);
    return !found;
  }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string& name) override {
    key_ = name;
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string& text,
                   const nlohmann::json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id != kNumberOverflow) return false;
    found = "'" + untrusted_line(key_) + "' is " + untrusted_line(text) +
            ", which is too large for a float of 64 bits; give it as a string";
    return false;
  }

 private:
  std::string key_;
};

}  // namespace

std::optional<std::string> too_large_number(std::string_view text) {
  NumberSearch search;
  (void)nlohmann::json::sax_parse(text, &search);
  return std::move(search.found);
}

std::string too_large_integer(std::string_view key, std::string_view number) {
  return "'" + untrusted_line(key) + "' is " + untrusted_line(number.substr(0, 60)) +
         ", an integer of more than 63 bits; give it as a float or a string";
}

}  // namespace accelerate::detail
