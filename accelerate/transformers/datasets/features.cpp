#include "accelerate/transformers/datasets/features.h"

#include <algorithm>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/base/utf8.h"

namespace accelerate {

Feature Feature::list_of(Feature element) {
  Feature list(Kind::list);
  list.element_ = std::make_shared<const Feature>(std::move(element));
  return list;
}

Feature Feature::class_label(std::vector<std::string> names) {
  if (names.empty())
    throw UsageError("a class label without names was given; allowed are one or more");
  const auto classes = std::make_shared<Classes>();
  classes->names = std::move(names);
  for (const std::string& name : classes->names) {
    if (!is_utf8(name)) throw UsageError("the name of a class is not UTF-8");
    const auto number = static_cast<std::int64_t>(classes->numbers.size());
    if (!classes->numbers.emplace(name, number).second)
      throw UsageError("a class label has the name '" + name + "' twice");
  }
  Feature label(Kind::integer);
  label.classes_ = classes;
  return label;
}

const Feature& Feature::element() const {
  if (element_) return *element_;
  throw UsageError(description() + " has no element; only a list has one");
}

const std::vector<std::string>& Feature::names() const {
  static const std::vector<std::string> kNone;
  return classes_ ? classes_->names : kNone;
}

std::optional<std::int64_t> Feature::find_class(std::string_view name) const {
  if (!classes_) return std::nullopt;
  const auto found = classes_->numbers.find(name);
  return found == classes_->numbers.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t Feature::str2int(std::string_view name) const {
  if (const auto number = find_class(name)) return *number;
  const auto near = nearest(std::string(name), names());
  throw UsageError("'" + std::string(name) + "' is none of the " + std::to_string(names().size()) +
                   " classes" + (near ? "; did you mean '" + *near + "'?" : ""));
}

const std::string& Feature::int2str(std::int64_t value) const {
  if (value >= 0 && static_cast<std::size_t>(value) < names().size())
    return names()[static_cast<std::size_t>(value)];
  throw UsageError("the class " + std::to_string(value) + " was given; allowed are 0 to " +
                   std::to_string(names().size()) + " exclusive");
}

std::string Feature::description() const {
  if (is_class_label()) return "class_label(" + join(names(), ", ") + ")";
  switch (kind_) {
    case Kind::null:
      return "null";
    case Kind::integer:
      return "int64";
    case Kind::floating:
      return "float64";
    case Kind::boolean:
      return "bool";
    case Kind::string:
      return "string";
    case Kind::list:
      return "list<" + element_->description() + ">";
  }
  return "";
}

bool Feature::operator==(const Feature& other) const {
  if (kind_ != other.kind_ || names() != other.names()) return false;
  return kind_ != Kind::list || *element_ == *other.element_;
}

bool Feature::has_kinds_of(const Feature& other) const {
  return kind_ == other.kind_ && (kind_ != Kind::list || element_->has_kinds_of(*other.element_));
}

std::string detail::described(const Features& features) {
  std::string text;
  for (const auto& [name, feature] : features)
    text += (text.empty() ? "" : ", ") + untrusted_line(name) + ": " + feature.description();
  return text.empty() ? "none" : text;
}

void detail::check_features(const Features& features) {
  std::set<std::string_view> seen;
  for (const auto& [name, feature] : features) {
    if (!is_utf8(name))
      throw UsageError("the name of column " + std::to_string(seen.size() + 1) + " is not UTF-8");
    if (!seen.insert(name).second)
      throw UsageError("two columns would have the name '" + name + "'");
    std::size_t depth = 0;
    for (const Feature* inner = &feature; inner->kind() == Feature::Kind::list; ++depth)
      inner = &inner->element();
    if (depth > kDeepestList) {
      throw UsageError("the column '" + name + "' has " + std::to_string(depth) +
                       " lists within each other; allowed are " + std::to_string(kDeepestList));
    }
  }
}

}  // namespace accelerate
