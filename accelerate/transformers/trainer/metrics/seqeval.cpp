#include "accelerate/transformers/trainer/metrics/seqeval.h"

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/models/losses.h"
#include "accelerate/transformers/trainer/metrics/class_counts.h"

namespace accelerate {
namespace {

constexpr std::size_t kCountsOfType = 3;

struct ChunkScores {
  double precision = 0, recall = 0, f1 = 0;
};

void check_seqeval(const SeqevalOptions& options) {
  static const std::vector<std::string> modes{"default", "strict"};
  if (std::find(modes.begin(), modes.end(), options.mode) == modes.end())
    throw ConfigError("the mode is '" + options.mode + "'; allowed are default and strict." +
                      did_you_mean(options.mode, modes));
  if (options.id2label.empty())
    throw ConfigError("SeqevalF1 has no names of classes; give id2label, as of the model's config");
  if (options.zero_division != 0 && options.zero_division != 1)
    throw ConfigError("zero_division is " + std::to_string(options.zero_division) +
                      "; allowed are 0 and 1");
}

double seqeval_share(std::int64_t hits, std::int64_t all, double zero_division) {
  return all == 0 ? zero_division : static_cast<double>(hits) / static_cast<double>(all);
}

// `counts`: hits, predicted, labelled.
ChunkScores chunk_scores(const std::int64_t* counts, double zero_division) {
  ChunkScores scores{seqeval_share(counts[0], counts[1], zero_division),
                     seqeval_share(counts[0], counts[2], zero_division)};
  const double sum = scores.precision + scores.recall;
  scores.f1 = sum == 0 ? 0 : 2 * scores.precision * scores.recall / sum;
  return scores;
}

void add_scores(Metrics& metrics, const std::string& prefix, const ChunkScores& scores) {
  metrics.emplace_back(prefix + "precision", scores.precision);
  metrics.emplace_back(prefix + "recall", scores.recall);
  metrics.emplace_back(prefix + "f1", scores.f1);
}

}  // namespace

SeqevalF1::SeqevalF1(SeqevalOptions options)
    : options_(std::move(options)),
      tags_(options_.id2label,
            {.has_suffix = options_.suffix, .is_strict = options_.mode == "strict"}),
      scheme_(detail::tag_scheme(options_.scheme)) {
  check_seqeval(options_);
  if (options_.mode == "strict") detail::check_prefixes(tags_, options_.id2label, scheme_);
  reset();
}

void SeqevalF1::reset() {
  counts_.assign(tags_.types().size() * kCountsOfType + 2, 0);
}

std::vector<detail::TagChunk> SeqevalF1::chunks(const Tags& tags) const {
  return options_.mode == "strict" ? detail::strict_chunks(tags, scheme_)
                                   : detail::lenient_chunks(tags);
}

// No two chunks of a sentence end at the same word, so one walk over both lists finds the equal
// chunks.
void SeqevalF1::add_sentence(const Tags& labels, const Tags& predicted) {
  const auto wanted = chunks(labels), found = chunks(predicted);
  const auto count = [&](const detail::TagChunk& chunk, std::size_t which) {
    ++counts_[static_cast<std::size_t>(chunk.type) * kCountsOfType + which];
  };
  for (const auto& chunk : found) count(chunk, 1);
  for (std::size_t i = 0, j = 0; i < wanted.size(); ++i) {
    count(wanted[i], 2);
    while (j < found.size() && found[j].end < wanted[i].end) ++j;
    if (j < found.size() && found[j] == wanted[i]) count(wanted[i], 0);
  }
}

void SeqevalF1::update(const MetricBatch& batch) {
  if (batch.labels.defined() && batch.labels.dim() != 2)
    throw UsageError("labels of tagged sentences have the shape {B, T}; found " +
                     std::to_string(batch.labels.dim()) + " dimensions");
  const at::Tensor predicted = detail::likeliest_classes(batch);
  // Labels are checked before the first sentence is counted.
  const detail::LabelledClasses kept = detail::labelled_classes(batch, tags_.size());
  const at::Tensor labels = detail::checked_labels(batch, tags_.size());
  const auto* label = labels.const_data_ptr<std::int64_t>();
  std::size_t next = 0;
  Tags wanted, found;
  for (std::int64_t row = 0; row < labels.size(0); ++row) {
    wanted.clear(), found.clear();
    for (std::int64_t i = 0; i < labels.size(1); ++i) {
      if (*label++ == detail::kIgnoredLabel) continue;
      wanted.push_back(tags_.of(kept.labels[next]));
      found.push_back(tags_.of(kept.predicted[next]));
      counts_[counts_.size() - 2] +=
          tags_.first_of_name(kept.labels[next]) == tags_.first_of_name(kept.predicted[next]);
      ++next;
    }
    add_sentence(wanted, found);
  }
  counts_.back() += static_cast<std::int64_t>(kept.labels.size());
}

Metrics SeqevalF1::compute(Communicator& communicator) const {
  const auto counts = detail::sum_over_ranks(communicator, counts_);
  detail::require_samples(counts.back(), options_.prefix + "f1");
  Metrics metrics;
  std::int64_t all[kCountsOfType] = {};
  for (const std::int64_t type : tags_.chunk_types()) {
    const std::int64_t* own = counts.data() + static_cast<std::size_t>(type) * kCountsOfType;
    for (std::size_t i = 0; i < kCountsOfType; ++i) all[i] += own[i];
    if (!options_.per_type) continue;
    const std::string prefix = tags_.types()[static_cast<std::size_t>(type)] + "_";
    add_scores(metrics, prefix, chunk_scores(own, options_.zero_division));
    metrics.emplace_back(prefix + "number", static_cast<double>(own[2]));
  }
  add_scores(metrics, options_.prefix, chunk_scores(all, options_.zero_division));
  metrics.emplace_back(options_.prefix + "accuracy",
                       seqeval_share(counts[counts.size() - 2], counts.back(), 0));
  return metrics;
}

std::vector<std::string> SeqevalF1::names() const {
  std::vector<std::string> names;
  const auto add = [&](const std::string& prefix, const char* last) {
    for (const char* name : {"precision", "recall", "f1", last}) names.push_back(prefix + name);
  };
  if (options_.per_type) {
    for (const std::int64_t type : tags_.chunk_types())
      add(tags_.types()[static_cast<std::size_t>(type)] + "_", "number");
  }
  add(options_.prefix, "accuracy");
  return names;
}

}  // namespace accelerate
