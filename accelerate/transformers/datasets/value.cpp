#include "accelerate/transformers/datasets/value.h"

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/cell_error.h"

namespace accelerate {
namespace {

struct Describe {
  std::string operator()(std::monostate) const { return "nothing"; }
  std::string operator()(std::int64_t) const { return "an integer"; }
  std::string operator()(double) const { return "a float"; }
  std::string operator()(bool) const { return "a boolean"; }
  std::string operator()(const std::string&) const { return "a string"; }
  std::string operator()(const std::vector<std::int64_t>&) const { return "a list of integers"; }
  std::string operator()(const std::vector<double>&) const { return "a list of floats"; }
  std::string operator()(const std::vector<bool>&) const { return "a list of booleans"; }
  std::string operator()(const std::vector<std::string>&) const { return "a list of strings"; }
  std::string operator()(const Value::List&) const { return "a list"; }
};

// Returns what to do about `value` where a value of type T is allowed.
template <typename T>
std::string cure_of(const Value& value) {
  constexpr bool wants_integer = std::is_same_v<T, std::int64_t>;
  if (value.is_missing())
    return ". Leave out rows without a value by filter(), or fill the value in: is_missing() tells";
  if (wants_integer && value.holds<double>())
    return ". Read it by number(); for classes, convert it to an integer, then call "
           "class_encode_column()";
  if (wants_integer && (value.holds<std::string>() || value.holds<bool>()))
    return ". class_encode_column() numbers the values of a column";
  return ". Read it by the function of its own type";
}

template <typename T>
const T& get(const Value& value, const auto& data, const char* allowed) {
  if (const T* found = std::get_if<T>(&data)) return *found;
  throw detail::CellError(
      value, value.description() + " is there; allowed is " + allowed + cure_of<T>(value));
}

}  // namespace

void Value::refuse(std::uint64_t value) {
  throw UsageError("the integer " + std::to_string(value) +
                   " was given; allowed are 63 bits and a sign. Give it as a float or a string");
}

std::string Value::description() const {
  return visit(Describe{});
}

bool Value::is_list() const {
  return visit([]<typename T>(const T&) {
    return requires(T value) { value.begin(); } && !std::is_same_v<T, std::string>;
  });
}

std::int64_t Value::integer() const {
  return get<std::int64_t>(*this, data_, "an integer");
}

double Value::number() const {
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*integer);
  return get<double>(*this, data_, "a number");
}

bool Value::boolean() const {
  return get<bool>(*this, data_, "a boolean");
}
const std::string& Value::text() const {
  return get<std::string>(*this, data_, "a string");
}

const std::vector<std::int64_t>& Value::integers() const {
  return get<std::vector<std::int64_t>>(*this, data_, "a list of integers");
}

const std::vector<double>& Value::numbers() const {
  return get<std::vector<double>>(*this, data_, "a list of floats");
}

const std::vector<std::string>& Value::texts() const {
  return get<std::vector<std::string>>(*this, data_, "a list of strings");
}

Value::List Value::list() const {
  return visit([&]<typename T>(const T& data) -> List {
    if constexpr (std::is_same_v<T, List>) {
      return data;
    } else if constexpr (requires(T value) { value.begin(); } && !std::is_same_v<T, std::string>) {
      List list;
      for (const auto& entry : data) list.emplace_back(static_cast<typename T::value_type>(entry));
      return list;
    } else {
      throw detail::CellError(
          *this, description() + " is there; allowed is a list" + cure_of<List>(*this));
    }
  });
}

}  // namespace accelerate
