// A word is a token, or unknown.
#include "accelerate/transformers/tokenizers/models/model.h"

namespace accelerate::detail {
namespace {

class WordLevel : public Model {
 public:
  explicit WordLevel(const JsonView& json)
      : Model(json), unknown_text_(json.text("unk_token", "<unk>")) {
    read_vocabulary(json.at("vocab"), vocabulary_);
    unknown_ = vocabulary_.find(unknown_text_);
  }

  [[nodiscard]] std::unique_ptr<Scratch> scratch() const override {
    return std::make_unique<Scratch>();
  }

  void tokenize(std::string_view piece, Scratch&, std::vector<PieceToken>& out) const override {
    std::uint32_t id = vocabulary_.find(piece);
    if (id == kNoId) id = unknown_;
    if (id == kNoId) {
      refuse_unknown(piece, "its unknown token '" + unknown_text_ + "' is not in the vocabulary");
    }
    out.push_back({id, 0, static_cast<std::uint32_t>(piece.size())});
  }

 private:
  std::string unknown_text_;
  std::uint32_t unknown_ = kNoId;
};

}  // namespace

std::unique_ptr<Model> read_word_level(const JsonView& json) {
  return std::make_unique<WordLevel>(json);
}

}  // namespace accelerate::detail
