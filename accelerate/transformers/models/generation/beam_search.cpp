#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "accelerate/transformers/models/generation/continuation.h"

namespace accelerate::detail {
namespace {

constexpr double kOut = -1e9;  // Added to scores that must not be chosen.

// Returns the token that fills a row after its end. As in Transformers, a padding token of 0 counts
// as none.
std::int64_t filling_of(const GenerationConfig& config) {
  if (!config.eos_token_id) return -1;
  const std::int64_t padding = config.pad_token_id.value_or(0);
  return padding != 0 ? padding : config.eos_token_id->front();
}

// Takes the chosen beams of each row. values: {rows, beams, …}; beams: int64 {rows, chosen}.
at::Tensor take_beams(const at::Tensor& values, const at::Tensor& beams) {
  if (values.dim() == 2) return values.gather(1, beams);
  return values.gather(1, beams.unsqueeze(-1).expand({-1, -1, values.size(2)}));
}

// For each row of the prompt: the beams that continue and the best beams that have ended, with their
// scores. Sequences are {rows, beams, max_length}; places without a token yet hold filling_of().
class Beams {
 public:
  Beams(const at::Tensor& ids, const Search& search)
      : search_(search),
        beams_(*search.config.num_beams),
        rows_(ids.size(0) / beams_),
        prompt_(ids.size(1)),
        length_(ids.size(1)) {
    const auto& config = search.config;
    const auto ends =
        config.eos_token_id ? static_cast<std::int64_t>(config.eos_token_id->size()) : 0;
    candidates_ = std::max<std::int64_t>(2, 1 + ends) * beams_;
    running_ = at::full({rows_, beams_, *config.max_length}, filling_of(config), ids.options());
    running_.narrow(2, 0, length_).copy_(ids.view({rows_, beams_, length_}));
    finished_ = running_.clone();
    const auto numbers = ids.options().dtype(at::kFloat);
    // The beams of a row are still equal: only the first one counts.
    running_scores_ = at::zeros({rows_, beams_}, numbers);
    running_scores_.narrow(1, 1, beams_ - 1).fill_(kOut);
    finished_scores_ = at::full({rows_, beams_}, kOut, numbers);
    finished_lengths_ = at::zeros({rows_, beams_}, ids.options());
    has_finished_ = at::zeros({rows_, beams_}, ids.options().dtype(at::kBool));
    may_improve_ = at::ones({rows_, 1}, ids.options().dtype(at::kBool));
  }

  [[nodiscard]] at::Tensor ids() const { return running_.narrow(2, 0, length_).flatten(0, 1); }

  // Takes the scores of the next token, {rows · beams, words}. Returns for each row the caller's
  // row that it continues, int64 {rows · beams}; undefined when the search is over.
  at::Tensor advance(const at::Tensor& scores) {
    const at::Tensor all =
        (search_.steps(ids(), at::log_softmax(scores, -1)).view({rows_, beams_, -1}) +
         running_scores_.unsqueeze(-1))
            .flatten(1);
    const at::Tensor chosen = *search_.config.do_sample
                                  ? at::multinomial(at::softmax(all, -1), candidates_)
                                  : std::get<1>(at::topk(all, candidates_));
    const std::int64_t words = scores.size(1);
    const at::Tensor from = chosen.floor_divide(words), values = all.gather(1, chosen);
    at::Tensor sequences = take_beams(running_, from);
    sequences.select(2, length_).copy_(chosen.remainder(words));
    const at::Tensor ends =
        search_.stopping(sequences.narrow(2, 0, length_ + 1).flatten(0, 1)).view({rows_, -1});

    finish(sequences, values, ends);
    const at::Tensor open = values + ends.to(at::kFloat) * kOut;
    const at::Tensor next = std::get<1>(at::topk(open, beams_));
    running_ = take_beams(sequences, next);
    running_scores_ = open.gather(1, next);
    ++length_;
    if (!continues(ends)) return {};
    const at::Tensor first_of_row = at::arange(rows_, from.options()).unsqueeze(1) * beams_;
    return (from.gather(1, next) + first_of_row).flatten();
  }

  // {rows · num_return_sequences, tokens}
  [[nodiscard]] at::Tensor result() const {
    const std::int64_t kept = *search_.config.num_return_sequences;
    const at::Tensor lengths = finished_lengths_.narrow(1, 0, kept);
    return finished_.narrow(1, 0, kept)
        .flatten(0, 1)
        .narrow(1, 0, prompt_ + lengths.max().item<std::int64_t>());
  }

 private:
  [[nodiscard]] bool stops_early() const {
    return search_.config.early_stopping->kind() == EarlyStopping::Kind::yes;
  }

  // Keeps the best of the beams that had ended and of the beams that end now.
  void finish(const at::Tensor& sequences, const at::Tensor& values, const at::Tensor& ends) {
    const at::Tensor is_best = at::arange(candidates_, values.options()) < beams_;
    const at::Tensor now = ends.logical_and(is_best);
    const double length =
        std::pow(static_cast<double>(length_ + 1 - prompt_), *search_.config.length_penalty);
    at::Tensor scores = values / length;
    if (stops_early()) scores = scores + has_finished_.all(1, true).to(at::kFloat) * kOut;
    scores = scores + may_improve_.logical_not().to(at::kFloat) * kOut;
    scores = scores + now.logical_not().to(at::kFloat) * kOut;
    const at::Tensor all_scores = at::cat({finished_scores_, scores}, 1);
    const at::Tensor best = std::get<1>(at::topk(all_scores, beams_));
    const at::Tensor lengths = at::full_like(ends, length_ + 1 - prompt_, at::kLong);
    finished_ = take_beams(at::cat({finished_, sequences}, 1), best);
    finished_scores_ = all_scores.gather(1, best);
    finished_lengths_ = at::cat({finished_lengths_, lengths}, 1).gather(1, best);
    has_finished_ = at::cat({has_finished_, now}, 1).gather(1, best);
  }

  bool continues(const at::Tensor& ends) {
    const auto& config = search_.config;
    const double penalty = *config.length_penalty;
    const bool to_the_end =
        config.early_stopping->kind() == EarlyStopping::Kind::never && penalty > 0;
    const double length = std::pow(
        static_cast<double>((to_the_end ? *config.max_length : length_) - prompt_), penalty);
    const at::Tensor best = running_scores_.narrow(1, 0, 1) / length;
    const at::Tensor worst = at::where(has_finished_, finished_scores_.amin(1, true), kOut);
    may_improve_ = may_improve_.logical_and((best > worst).any(1, true));
    const bool is_full = stops_early() && has_finished_.all().item<bool>();
    return may_improve_.any().item<bool>() && !is_full && !ends.all().item<bool>();
  }

  const Search& search_;
  std::int64_t beams_, rows_, prompt_, length_, candidates_ = 0;
  at::Tensor running_, running_scores_;
  at::Tensor finished_, finished_scores_, finished_lengths_, has_finished_;
  at::Tensor may_improve_;  // {rows, 1}
};

}  // namespace

at::Tensor beam_search(Continuation& continuation, const at::Tensor& ids, at::Tensor scores,
                       const Search& search) {
  Beams beams(ids, search);
  for (;;) {
    const at::Tensor from = beams.advance(scores);
    if (!from.defined()) return beams.result();
    continuation.select_rows(from);
    scores = continuation.next_scores(beams.ids());
  }
}

}  // namespace accelerate::detail
