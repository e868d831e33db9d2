#include "accelerate/transformers/datasets/iterable_dataset.h"

#include <algorithm>

#include "accelerate/transformers/datasets/cell_error.h"

namespace accelerate {
IterableDataset IterableDataset::map(std::function<Row(const Row&)> function,
                                     std::vector<std::string> remove_columns) const {
  return IterableDataset([begin = begin_, function = std::move(function),
                          remove_columns = std::move(remove_columns)](std::size_t epoch) -> Next {
    return [next = begin(epoch), function, remove_columns,
            number = std::size_t{0}]() mutable -> std::optional<Row> {
      auto row = next();
      if (!row) return std::nullopt;
      const Row result = detail::called_on_row(function, *row, number++);
      for (const std::string& name : remove_columns) row->erase(name);
      for (const auto& [name, value] : result) row->set(name, value);
      return row;
    };
  });
}

IterableDataset IterableDataset::filter(std::function<bool(const Row&)> keeps) const {
  return IterableDataset(
      [begin = begin_, keeps = std::move(keeps)](std::size_t epoch) -> Next {
        return
            [next = begin(epoch), keeps, number = std::size_t{0}]() mutable -> std::optional<Row> {
              for (auto row = next(); row; row = next()) {
                if (detail::called_on_row(keeps, *row, number++)) return row;
              }
              return std::nullopt;
            };
      },
      features_);
}

IterableDataset IterableDataset::take(std::size_t count) const {
  return IterableDataset(
      [begin = begin_, count](std::size_t epoch) -> Next {
        return [next = begin(epoch), left = count]() mutable -> std::optional<Row> {
          if (left == 0) return std::nullopt;
          --left;
          return next();
        };
      },
      features_);
}

IterableDataset IterableDataset::skip(std::size_t count) const {
  return IterableDataset(
      [begin = begin_, count](std::size_t epoch) -> Next {
        return [next = begin(epoch), left = count]() mutable -> std::optional<Row> {
          for (; left > 0; --left) {
            if (!next()) break;
          }
          left = 0;
          return next();
        };
      },
      features_);
}

}  // namespace accelerate
