#include "accelerate/transformers/datasets/readers/growing_columns.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/untrusted_text.h"

namespace accelerate::detail {
namespace {

[[noreturn]] void refuse(const std::string& place, const std::string& name,
                         const std::string& what) {
  throw DataError(place + ": '" + untrusted_line(name) + "' " + what +
                  ". Give the column another type by {.features = …} if the file is right");
}

}  // namespace

Features features_of(const std::vector<Row>& rows, const std::vector<std::string>& places) {
  Features features;
  std::unordered_map<std::string, std::size_t> places_of_names;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::size_t place = 0;
    for (const auto& [name, value] : rows[i]) {
      // Rows of a file mostly have their columns in the same order.
      auto known =
          features.begin() + static_cast<std::ptrdiff_t>(std::min(place++, features.size()));
      if (known == features.end() || known->first != name) {
        const auto number = places_of_names.try_emplace(name, features.size()).first->second;
        if (number == features.size()) features.emplace_back(name, Feature::null());
        known = features.begin() + static_cast<std::ptrdiff_t>(number);
      }
      auto wider = feature_of(value, known->second);
      if (!wider) {
        refuse(places[i], name,
               !feature_of(value) ? "is a list of values that have no type in common"
                                  : "is " + value.description() + ", and was " +
                                        known->second.description() + " before");
      }
      known->second = std::move(*wider);
    }
  }
  return features;
}

Chunk chunk_of(const std::vector<Row>& rows, const std::vector<std::string>& places,
               const Features& features) {
  std::vector<ColumnBuilder> builders;
  for (const auto& [name, feature] : features) builders.emplace_back(feature);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::size_t used = 0;
    for (std::size_t column = 0; column < features.size(); ++column) {
      const auto& [name, feature] = features[column];
      const Value* value = rows[i].find(name, column);
      if (value != nullptr) ++used;
      try {
        const bool is_name =
            value != nullptr && feature.is_class_label() && value->holds<std::string>();
        if (value == nullptr) {
          builders[column].append_missing();
        } else if (is_name) {
          builders[column].append(feature.str2int(value->text()));
        } else {
          builders[column].append(*value);
        }
      } catch (const DataError& error) {
        refuse(places[i], name, std::string("is ") + error.what());
      } catch (const UsageError& error) {  // The text is not the name of a class.
        throw DataError(places[i] + ": '" + name + "': " + error.what());
      }
    }
    if (used == rows[i].size()) continue;
    for (const auto& [name, value] : rows[i]) {
      const bool is_known =
          std::ranges::any_of(features, [&](const auto& feature) { return feature.first == name; });
      if (!is_known)
        refuse(places[i], name, "is none of the columns found before: " + described(features));
    }
  }
  Chunk chunk{.rows = rows.size()};
  for (ColumnBuilder& builder : builders) chunk.columns.push_back(builder.finish());
  return chunk;
}

}  // namespace accelerate::detail
