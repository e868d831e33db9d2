// BERT and the encoders that have its layers: one word each in both lists, for the source of that
// name.
#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {

Architecture bert(), roberta(), xlm_roberta(), camembert(), electra(), distilbert();

std::vector<Architecture> bert_family() {
  return {bert(), roberta(), xlm_roberta(), camembert(), electra(), distilbert()};
}

}  // namespace accelerate::detail
