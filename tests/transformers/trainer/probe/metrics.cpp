// Computes metrics as tests/transformers/trainer/metrics_live.py asks for.
//
// usage: metrics_probe
//
// Reads one JSON object a line:
//   {"metric": SPEC, "ranks": [[BATCH, …], …]}
// SPEC is {"kind": "accuracy", "options": {…}} or {"combine": [SPEC, …]}; BATCH has "predictions"
// and "labels", each {"shape", "dtype", "values"}, where null stands for NaN. Each rank adds its
// own batches. Prints {"values": [[NAME, TEXT], …]}, or {"error": "KIND: …"}. A metric whose values
// differ between ranks, after a reset or from its names, is an error too.
#include <ATen/ops/tensor.h>

#include <cstdio>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/metrics/metrics.h"
#include "tests/support/ranks.h"

namespace {

using namespace accelerate;
using Json = nlohmann::ordered_json;
using Texts = std::vector<std::pair<std::string, std::string>>;

double number_of(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

at::Tensor tensor_of(const Json& given) {
  const auto dtype = given.at("dtype").get<std::string>();
  const auto shape = given.at("shape").get<std::vector<std::int64_t>>();
  const Json& values = given.at("values");
  if (dtype.starts_with("int"))
    return at::tensor(values.get<std::vector<std::int64_t>>(), at::kLong)
        .to(dtype == "int32" ? at::kInt : at::kLong)
        .reshape(shape);
  std::vector<double> numbers;
  for (const Json& value : values) numbers.push_back(number_of(value));
  const auto type = dtype == "float64"    ? at::kDouble
                    : dtype == "float32"  ? at::kFloat
                    : dtype == "bfloat16" ? at::kBFloat16
                                          : at::kHalf;
  return at::tensor(numbers, at::kDouble).to(type).reshape(shape);
}

ClassificationOptions classification_options(const Json& given) {
  ClassificationOptions options;
  options.average = given.value("average", options.average);
  options.pos_label = given.value("pos_label", options.pos_label);
  options.labels = given.value("labels", options.labels);
  options.num_classes = given.value("num_classes", options.num_classes);
  if (given.contains("zero_division")) options.zero_division = number_of(given["zero_division"]);
  options.name = given.value("name", options.name);
  return options;
}

SeqevalOptions seqeval_options(const Json& given) {
  SeqevalOptions options;
  options.id2label = given.at("id2label").get<std::vector<std::string>>();
  options.mode = given.value("mode", options.mode);
  options.scheme = given.value("scheme", options.scheme);
  options.suffix = given.value("suffix", options.suffix);
  options.per_type = given.value("per_type", options.per_type);
  options.zero_division = given.value("zero_division", options.zero_division);
  return options;
}

MetricHandle metric_of(const Json& spec) {
  if (spec.contains("combine")) {
    std::vector<MetricHandle> members;
    for (const Json& member : spec["combine"]) members.push_back(metric_of(member));
    return combine(std::move(members));
  }
  const auto kind = spec.at("kind").get<std::string>();
  const Json options = spec.value("options", Json::object());
  if (kind == "accuracy") return Accuracy();
  if (kind == "f1") return F1(classification_options(options));
  if (kind == "precision") return Precision(classification_options(options));
  if (kind == "recall") return Recall(classification_options(options));
  if (kind == "matthews_correlation") return MatthewsCorrelation();
  if (kind == "pearsonr") return Pearson();
  if (kind == "spearmanr") return Spearman();
  if (kind == "perplexity") return Perplexity({.shift_labels = options.at("shift_labels")});
  if (kind == "seqeval") return SeqevalF1(seqeval_options(options));
  throw std::runtime_error("unknown metric " + kind);
}

Texts texts_of(const Metrics& metrics) {
  Texts texts;
  for (const auto& [name, value] : metrics) {
    char text[64];
    std::snprintf(text, sizeof(text), "%.17g", value);
    texts.emplace_back(name, text);
  }
  return texts;
}

Texts values_of(Metric& metric, const Json& batches, Communicator& communicator) {
  for (const Json& batch : batches) {
    metric.update({.predictions = tensor_of(batch.at("predictions")),
                   .labels = tensor_of(batch.at("labels"))});
  }
  return texts_of(metric.compute(communicator));
}

void require_names(const Metric& metric, const Texts& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.first);
  if (names != metric.names()) throw std::runtime_error("names() differ from compute()'s");
}

Texts answer(const Json& question) {
  const Json& shares = question.at("ranks");
  std::vector<Texts> of_ranks(shares.size());
  testing::run_ranks(static_cast<int>(shares.size()), [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto metric = metric_of(question.at("metric")).shared();
    of_ranks[rank] = values_of(*metric, shares[rank], communicator);
    require_names(*metric, of_ranks[rank]);
    metric->reset();
    if (values_of(*metric, shares[rank], communicator) != of_ranks[rank])
      throw std::runtime_error("the values differ after a reset");
  });
  for (const Texts& texts : of_ranks)
    if (texts != of_ranks[0]) throw std::runtime_error("the values differ between ranks");
  return of_ranks[0];
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Json reply;
    try {
      reply["values"] = answer(Json::parse(line));
    } catch (const Error& error) {
      reply["error"] = std::string(error.kind()) + ": " + describe(error);
    } catch (const std::exception& error) {
      reply["error"] = std::string("exception: ") + error.what();
    }
    std::cout << reply.dump() << std::endl;
  }
}
