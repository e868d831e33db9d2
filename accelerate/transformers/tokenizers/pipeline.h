// Takes a text through normalizer, pre-tokenizer and model.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/added_vocabulary.h"
#include "accelerate/transformers/tokenizers/decoders/decoder.h"
#include "accelerate/transformers/tokenizers/encoding.h"
#include "accelerate/transformers/tokenizers/models/model.h"
#include "accelerate/transformers/tokenizers/normalizers/normalizer.h"
#include "accelerate/transformers/tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "accelerate/transformers/tokenizers/processors/post_processor.h"

namespace accelerate::detail {

/// Keeps the Scratch objects of a model, and lends each to one thread at a time.
class ScratchPool {
 public:
  [[nodiscard]] std::unique_ptr<Scratch> take(const Model& model);
  void give_back(std::unique_ptr<Scratch> scratch);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

/// The parts of a tokenizer; every one but the model may be absent.
struct Pipeline {
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<PostProcessor> post_processor;
  std::unique_ptr<Decoder> decoder;
  AddedVocabulary added;

  /// Returns the tokens of `text` (UTF-8), with offsets in bytes. `splits_special`: special tokens
  /// in the text are text.
  [[nodiscard]] Encoding tokenize(std::string_view text, Scratch& scratch,
                                  bool splits_special = false) const;
};

}  // namespace accelerate::detail
