#include "accelerate/transformers/trainer/data/trainer_loaders.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <map>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

DataLoaderOptions common_options(const ResolvedArguments& args, std::int64_t batch_size) {
  return {.batch_size = batch_size,
          .num_workers = args.dataloader_num_workers,
          .prefetch_factor = args.dataloader_prefetch_factor.value_or(2),
          .pin_memory = args.dataloader_pin_memory};
}

std::int64_t length_of(const Value& value, const std::string& column) {
  if (value.holds<std::int64_t>()) return value.integer();
  if (value.holds<std::vector<std::int64_t>>())
    return static_cast<std::int64_t>(value.integers().size());
  throw ConfigError("column '" + column +
                    "' has no lengths: it must hold whole numbers or lists of them");
}

double padding_of(const std::string& name, std::int64_t pad_token_id) {
  if (name == "input_ids") return static_cast<double>(pad_token_id);
  return name.starts_with("label") ? -100 : 0;
}

at::Tensor padded_to(const at::Tensor& tensor, std::int64_t length, double padding) {
  auto shape = tensor.sizes().vec();
  shape[1] = length;
  at::Tensor padded = at::full(shape, padding, tensor.options());
  padded.narrow(1, 0, tensor.size(1)).copy_(tensor);
  return padded;
}

// Returns a collator that first removes the columns that the model does not take.
DataCollator keeping(std::vector<std::string> used, DataCollator collator) {
  return [used = std::move(used), collator = std::move(collator)](std::vector<Row> rows) {
    for (Row& row : rows) {
      std::vector<std::string> unused;
      for (const auto& [name, value] : row)
        if (!contains(used, name)) unused.push_back(name);
      for (const auto& name : unused) row.erase(name);
    }
    return collator(std::move(rows));
  };
}

// Pads batches that are to be divided to one length along dim 1: input_ids with `pad_token_id`,
// labels with -100, everything else with 0.
void pad_alike(std::vector<Inputs>& batches, std::int64_t pad_token_id) {
  std::map<std::string, std::int64_t> longest;
  for (const Inputs& batch : batches)
    for (const auto& [name, tensor] : batch)
      if (tensor.dim() > 1) longest[name] = std::max(longest[name], tensor.size(1));
  for (Inputs& batch : batches) {
    for (auto& [name, tensor] : batch)
      if (tensor.dim() > 1 && tensor.size(1) < longest[name])
        tensor = padded_to(tensor, longest[name], padding_of(name, pad_token_id));
  }
}

}  // namespace

std::vector<std::string> label_names(const LoaderRecipe& recipe) {
  if (!recipe.args.label_names.empty()) return recipe.args.label_names.texts();
  if (recipe.model.name().ends_with("ForQuestionAnswering"))
    return {"start_positions", "end_positions"};
  return {"labels"};
}

std::vector<std::string> used_columns(const LoaderRecipe& recipe) {
  auto used = recipe.model.input_names();
  if (used.empty() || !recipe.args.remove_unused_columns) return {};
  for (const char* name : {"label", "label_ids"}) used.emplace_back(name);
  for (const auto& name : label_names(recipe)) used.push_back(name);
  return used;
}

Dataset without_unused_columns(const Dataset& dataset, const LoaderRecipe& recipe) {
  const TrainableModel& model = recipe.model;
  const auto used = used_columns(recipe);
  if (used.empty()) return dataset;
  std::vector<std::string> kept, dropped;
  for (const auto& name : dataset.column_names())
    (contains(used, name) ? kept : dropped).push_back(name);
  if (kept.empty())
    throw ConfigError("no column of the dataset is an argument of " + model.name() + ": it has " +
                      join(dataset.column_names(), ", ") + "; the model takes " +
                      join(model.input_names(), ", ") +
                      ". Tokenize it by map(), or set remove_unused_columns to false");
  return dropped.empty() ? dataset : dataset.select_columns(kept);
}

std::vector<std::int64_t> lengths_of(const Dataset& dataset, const std::string& column) {
  const std::string from = dataset.has_column(column) ? column : "input_ids";
  if (!dataset.has_column(from))
    throw ConfigError("the lengths of rows are needed, and the dataset has neither column '" +
                      column + "' nor 'input_ids'; it has " + join(dataset.column_names(), ", ") +
                      ". Name one by length_column_name");
  std::vector<std::int64_t> lengths;
  for (const Value& value : dataset.column(from)) lengths.push_back(length_of(value, from));
  return lengths;
}

DataCollator LoaderRecipe::collator() const {
  if (data_collator) return data_collator;
  if (processing_class) return DataCollatorWithPadding{.tokenizer = *processing_class};
  return default_data_collator;
}

EpochCut LoaderRecipe::cut() const {
  EpochCut cut{.strategy = std::string(args.train_sampling_strategy.text()),
               .batch_size = train_batch_size,
               .ranks = world_size,
               .accumulation = accumulation,
               .max_tokens = args.max_tokens_per_batch.value_or(0),
               .drop_last = args.dataloader_drop_last,
               .split_batches = args.accelerator_config.split_batches};
  cut.order_samples = train_batch_size * world_size * accumulation;
  return cut;
}

std::shared_ptr<EpochBatches> LoaderRecipe::epoch_batches(const TrainerDataset& dataset) const {
  const bool by_length = args.train_sampling_strategy == SamplingStrategy::group_by_length ||
                         args.train_sampling_strategy == SamplingStrategy::batch_rebalance;
  if (!by_length && !args.max_tokens_per_batch) return nullptr;
  if (dataset.rows() == nullptr)
    throw ConfigError(
        "batches by length need a Dataset, whose lengths are known: for other datasets do not "
        "set train_sampling_strategy and max_tokens_per_batch");
  return std::make_shared<EpochBatches>(lengths_of(*dataset.rows(), args.length_column_name), cut(),
                                        args.data_seed.value_or(args.seed));
}

DataLoader<Inputs> LoaderRecipe::train_loader(const TrainerDataset& dataset,
                                              const std::shared_ptr<EpochBatches>& batches) const {
  auto options = common_options(args, train_batch_size);
  options.data_seed = args.data_seed.value_or(args.seed);
  if (batches != nullptr) {
    options.batch_size = 1;
    options.batch_sampler = [batches](std::int64_t epoch) { return batches->of(epoch); };
  } else {
    options.drop_last = args.dataloader_drop_last;
    options.shuffle =
        dataset.stream() == nullptr && args.train_sampling_strategy == SamplingStrategy::random;
  }
  return make_loader(dataset, std::move(options));
}

DataLoader<Inputs> LoaderRecipe::eval_loader(const TrainerDataset& dataset) const {
  return make_loader(dataset, common_options(args, args.per_device_eval_batch_size));
}

PreparedLoader<Inputs> LoaderRecipe::prepare(Accelerator& accelerator,
                                             const DataLoader<Inputs>& loader) const {
  const std::int64_t padding = processing_class ? processing_class->pad_token_id().value_or(0) : 0;
  return accelerator.prepare_data_loader<Inputs>(
      loader, {.pad_fn = [padding](std::vector<Inputs>& batches) { pad_alike(batches, padding); }});
}

// Makes a loader without the columns that the model does not take.
DataLoader<Inputs> LoaderRecipe::make_loader(const TrainerDataset& dataset,
                                             DataLoaderOptions options) const {
  if (dataset.rows() != nullptr)
    return make_data_loader(without_unused_columns(*dataset.rows(), *this), std::move(options),
                            collator());
  const auto used = used_columns(*this);
  const bool filters = dataset.stream() != nullptr && !used.empty();
  return dataset.loader(std::move(options), filters ? keeping(used, collator()) : collator());
}

}  // namespace accelerate::detail
