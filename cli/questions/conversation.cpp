#include "cli/questions/conversation.h"

#include <utility>

namespace accelerate::cli {
namespace {

struct WentBack {};

// Repeats the answers that are there, and asks for those that are not.
class Conversation final : public Respondent {
 public:
  Conversation(FrontEnd& front_end, std::vector<Answered>& answers)
      : front_end_(front_end), answers_(answers) {}

  std::string answer(const Question& question) override {
    if (next_ < answers_.size()) return answers_[next_++].answer;
    auto given = front_end_.ask(question, answers_);
    if (!given) throw WentBack();
    answers_.push_back({question.text, *given});
    ++next_;
    return *given;
  }

  void tell(const std::string& note) override {
    notes.push_back(note);
    if (next_ == answers_.size()) front_end_.tell(note);
  }

  std::vector<std::string> notes;

 private:
  FrontEnd& front_end_;
  std::vector<Answered>& answers_;
  std::size_t next_ = 0;
};

}  // namespace

ConfigDraft converse(FrontEnd& front_end) {
  std::vector<Answered> answers;
  for (;;) {
    try {
      Conversation conversation(front_end, answers);
      ConfigDraft draft = interview(conversation);
      draft.notes = std::move(conversation.notes);
      return draft;
    } catch (const WentBack&) {
      if (!answers.empty()) answers.pop_back();
    }
  }
}

}  // namespace accelerate::cli
